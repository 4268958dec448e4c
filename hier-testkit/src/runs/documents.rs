//! Cases about documents, crons and webhooks.

use std::time::{Duration, SystemTime};

use hier_core::runs::{
    AssistantPatch, AssistantQuery, Assistants, Cancel, Cron, CronQuery, Crons, Document, MultitaskStrategy,
    NewAssistant, NewCron, NewThread, Request, RunCommit, RunEnd, RunQuery, RunStatus, RunsError, ThreadIs, Webhooks,
};
use serde_json::json;

use super::kit::{CaseResult, add, cases, claim, end_run, holds, new, same, some};
use super::{ContractViolation, Subject};

cases!(super::Case, "documents":
    a_document_is_replaced_only_at_its_known_version,
    kinds_are_apart,
    assistants_have_versions,
    assistants_are_found,
    of_several_that_fire_a_cron_one_adds_its_run,
    a_run_is_added_with_the_latest_document_or_not_at_all,
    runs_of_a_cron_that_were_missed_are_one,
    a_cron_that_cannot_be_fired_continues_or_is_disabled,
    a_cron_does_not_fire_on_another_thread_with_its_id,
    the_end_of_a_run_is_kept_until_its_webhook_is_delivered,
    runs_without_an_end_or_a_webhook_deliver_nothing,
    an_unreadable_document_blocks_no_other,
    many_unreadable_documents_hide_no_other,
    crons_are_due_only_while_they_fire,
    crons_of_users_are_counted,
    a_cron_is_created_only_on_the_thread_that_was_checked,
);

async fn a_document_is_replaced_only_at_its_known_version(store: Subject) -> CaseResult {
    let document = |value| Document::new("kind", "a", json!(value));
    same("a new one", &store.put_document(document(1), None).await?, &true)?;
    same("a new one again", &store.put_document(document(2), None).await?, &false)?;
    same("a change", &store.put_document(document(3), Some(1)).await?, &true)?;
    same("a late change", &store.put_document(document(4), Some(1)).await?, &false)?;
    let found = some("the document", store.document("kind", "a").await?)?;
    same("the replaced document", &(found.revision, found.value), &(2, json!(3)))?;
    same("whether it can be deleted", &store.remove_document("kind", "a").await?, &true)?;
    same("and again", &store.remove_document("kind", "a").await?, &false)?;
    same("a change of nothing", &store.put_document(document(5), Some(2)).await?, &false)
}

async fn kinds_are_apart(store: Subject) -> CaseResult {
    for (kind, id) in [("x", "b"), ("x", "a"), ("y", "a")] {
        store.put_document(Document::new(kind, id, json!(kind)), None).await?;
    }
    let ids: Vec<_> = store.documents("x").await?.into_iter().map(|document| document.id).collect();
    same("those of one", &ids, &["a", "b"].map(str::to_owned).to_vec())?;
    store.remove_document("x", "a").await?;
    same("that of the other", &store.document("y", "a").await?.map(|found| found.value), &Some(json!("y")))
}

async fn assistants_have_versions(store: Subject) -> CaseResult {
    let assistants = Assistants::of(&*store);
    let made = assistants.create(NewAssistant::new("a", "desk")).await?;
    same("its name and version", &(&*made.name, made.version), &("desk", 1))?;
    let again = assistants.create(NewAssistant::new("a", "desk")).await;
    holds("a second is refused", matches!(again, Err(RunsError::Exists { .. })))?;
    let mut patch = AssistantPatch::default();
    patch.name = Some("Ann".to_owned());
    patch.metadata.insert("k".to_owned(), json!(1));
    same("the next version", &assistants.update("a", patch).await?.version, &2)?;
    same("the versions", &assistants.versions("a").await?.len(), &2)?;
    same("the first again", &assistants.set_latest("a", 1).await?.name, &"desk".to_owned())?;
    let latest = some("the assistant", assistants.get("a").await?)?;
    same("the latest", &latest.version, &1)?;
    same("a version after that", &assistants.update("a", AssistantPatch::default()).await?.version, &3)?;
    holds("an unknown version is refused", assistants.set_latest("a", 9).await.is_err())?;
    let unknown = assistants.update("b", AssistantPatch::default()).await;
    holds("an unknown one is refused", matches!(unknown, Err(RunsError::NoDocument { .. })))?;
    same("whether it can be deleted", &assistants.delete("a").await?, &true)
}

async fn assistants_are_found(store: Subject) -> CaseResult {
    let assistants = Assistants::of(&*store);
    for (id, graph) in [("a", "desk"), ("b", "desk"), ("c", "shop")] {
        let mut new = NewAssistant::new(id, graph);
        new.name = Some(format!("Assistant {id}"));
        new.metadata.insert("id".to_owned(), json!(id));
        assistants.create(new).await?;
    }
    let mut query = AssistantQuery::default();
    query.graph = Some("desk".to_owned());
    same("by graph", &assistants.search(&query).await?.len(), &2)?;
    query.name = Some("assistant B".to_owned());
    let found = assistants.search(&query).await?;
    same("by name", &found.iter().map(|found| &*found.id).collect::<Vec<_>>(), &vec!["b"])
}

async fn a_cron_does_not_fire_on_another_thread_with_its_id(store: Subject) -> CaseResult {
    let (mine, theirs) = (owned("bob"), owned("alice"));
    store.create_thread(mine.clone()).await?;
    let on_t = |cron: &mut Cron| {
        cron.thread = Some("t".to_owned());
        cron.thread_metadata = owned("bob").metadata;
    };
    let (cron, next) = due_cron(&store, on_t).await?;
    store.remove_thread("t").await?;
    tokio::time::sleep(Duration::from_millis(2)).await;
    for another in [theirs, mine] {
        store.create_thread(another).await?;
        let crons = Crons::of(&*store);
        same("the run", &crons.fire(&cron, SystemTime::now(), Some(next)).await?, &None)?;
        same("the runs", &store.runs(RunQuery::thread("t")).await?, &Vec::new())?;
        holds("it is disabled", some("the cron", crons.get("c").await?)?.enabled != cron.enabled)?;
        store.remove_thread("t").await?;
    }
    Ok(())
}

fn owned(by: &str) -> NewThread {
    let mut thread = NewThread::new("t");
    thread.metadata.insert("owner".to_owned(), json!(by));
    thread
}

/// Creates a cron that was due a second ago. Returns the cron and the time of its next run.
async fn due_cron(store: &Subject, change: impl FnOnce(&mut Cron)) -> Result<(Cron, SystemTime), ContractViolation> {
    let now = SystemTime::now();
    let mut cron = NewCron::new("c", "desk", "* * * * *", Some(now - Duration::from_secs(1)), Request::default());
    change(&mut cron.cron);
    Crons::of(&**store).create(cron).await?;
    let due = Crons::of(&**store).due(now).await?;
    Ok((some("the cron", due.into_iter().next())?, now + Duration::from_mins(1)))
}

async fn of_several_that_fire_a_cron_one_adds_its_run(store: Subject) -> CaseResult {
    let (cron, next) = due_cron(&store, |cron| drop(cron.metadata.insert("by".to_owned(), json!("cron")))).await?;
    let (crons, now) = (Crons::of(&*store), SystemTime::now());
    let mut fired = Vec::new();
    let tries: Vec<_> = (0..8)
        .map(|_| {
            let (store, cron) = (store.clone(), cron.clone());
            tokio::spawn(async move { Crons::of(&*store).fire(&cron, now, Some(next)).await })
        })
        .collect();
    for tried in tries {
        fired.extend(tried.await.map_err(ContractViolation::unexpected)??);
    }
    same("the runs that were added", &fired.len(), &1)?;
    same(
        "the metadata from the cron",
        &(fired[0].metadata.get("by"), fired[0].metadata.get("cron_id")),
        &(Some(&json!("cron")), Some(&json!("c"))),
    )?;
    same("all runs", &store.runs(RunQuery::default()).await?.len(), &1)?;
    same("the due crons at that time", &crons.due(now).await?, &Vec::new())?;
    // The run is deleted now. A slow process that read the cron earlier must still not add a second run.
    let claimed = claim(&store).await?;
    end_run(&store, &claimed).await?;
    store.remove_thread(&claimed.run.thread).await?;
    same("a late one", &crons.fire(&cron, now, Some(next)).await?, &None)?;
    same("the runs then", &store.runs(RunQuery::default()).await?.len(), &0)?;
    same("all", &crons.search(&CronQuery::default()).await?.len(), &1)
}

async fn a_run_is_added_with_the_latest_document_or_not_at_all(store: Subject) -> CaseResult {
    store.put_document(Document::new("kind", "a", json!(1)), None).await?;
    let with = |revision, value| {
        let mut run = new("t");
        run.document = Some(Document::new("kind", "a", json!(value)).revision(revision));
        run
    };
    let stale = store.create_run(with(7, 2)).await;
    holds("one that is not the latest is refused", matches!(stale, Err(RunsError::Stale { .. })))?;
    same("the thread of a run that was refused", &store.thread("t").await?.is_some(), &false)?;
    store.create_run(with(1, 3)).await?;
    let found = some("the document", store.document("kind", "a").await?)?;
    same("the document", &(found.revision, found.value), &(2, json!(3)))?;
    let mut busy = with(2, 4);
    busy.multitask_strategy = MultitaskStrategy::Reject;
    holds("a busy thread refuses", matches!(store.create_run(busy).await, Err(RunsError::Busy { .. })))?;
    same("the document then", &store.document("kind", "a").await?.map(|found| found.revision), &Some(2))
}

/// A store returns a limited number of due documents at a time. Unreadable documents must not fill each answer.
async fn many_unreadable_documents_hide_no_other(store: Subject) -> CaseResult {
    let long_ago = SystemTime::now() - Duration::from_hours(1);
    for number in 0..300 {
        let broken = Document::new("cron", format!("broken {number}"), json!(number)).due(Some(long_ago));
        store.put_document(broken, None).await?;
    }
    let now = SystemTime::now();
    let cron = NewCron::new("c", "desk", "* * * * *", Some(now - Duration::from_secs(1)), Request::default());
    Crons::of(&*store).create(cron).await?;
    let mut found = Vec::new();
    for _ in 0..3 {
        found.extend(Crons::of(&*store).due(now).await?.into_iter().map(|cron| cron.id));
    }
    holds("the other is found", found.contains(&"c".to_owned()))
}

/// A cron is not due once it was fired, while it is disabled, or after its end.
async fn crons_are_due_only_while_they_fire(store: Subject) -> CaseResult {
    let (crons, now) = (Crons::of(&*store), SystemTime::now());
    let due = async || store.documents_due("cron", now).await.map(|due| due.len());
    let (cron, next) = due_cron(&store, |_| {}).await?;
    same("one that is due", &due().await?, &1)?;
    some("its run", crons.fire(&cron, now, Some(next)).await?)?;
    same("once it was fired", &due().await?, &0)?;
    let again = async |change: fn(&mut Cron, SystemTime)| -> Result<(), ContractViolation> {
        let mut cron = some("the cron", crons.get("c").await?)?;
        (cron.next, cron.enabled, cron.ends) = (Some(now - Duration::from_secs(1)), true, None);
        change(&mut cron, now);
        same("whether it was changed", &crons.replace(&cron).await?, &true)
    };
    again(|_, _| {}).await?;
    same("due again", &due().await?, &1)?;
    again(|cron, _| cron.enabled = false).await?;
    same("disabled", &due().await?, &0)?;
    again(|cron, now| cron.ends = Some(now - Duration::from_mins(1))).await?;
    same("after its end", &due().await?, &0)?;
    again(|cron, _| cron.next = None).await?;
    same("without a next time", &due().await?, &0)
}

async fn crons_of_users_are_counted(store: Subject) -> CaseResult {
    let crons = Crons::of(&*store);
    for (id, user) in [("a", "ann"), ("b", "bob"), ("c", "ann"), ("d", "")] {
        let mut new = NewCron::new(id, "desk", "* * * * *", None, Request::default());
        new.cron.user = user.to_owned();
        crons.create(new).await?;
    }
    let counted = async |user: &str| crons.count_of(user).await;
    same("of one", &counted("ann").await?, &2)?;
    same("the count without an owner", &counted("").await?, &1)?;
    same("whether it is deleted", &crons.delete("a").await?, &true)?;
    same("and again", &crons.delete("a").await?, &false)?;
    same("then", &counted("ann").await?, &1)?;
    same("of another", &counted("bob").await?, &1)?;
    // A database may not accept the name as part of a key.
    let mut number = 1_u32;
    let digits = std::iter::repeat_with(|| {
        number = number.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        char::from_digit(number >> 28, 16).unwrap_or_default()
    });
    let long: String = digits.take(10_000).collect();
    let mut new = NewCron::new("long", "desk", "* * * * *", None, Request::default());
    new.cron.user.clone_from(&long);
    crons.create(new).await?;
    same("of a long name", &counted(&long).await?, &1)?;
    same("whether it is deleted, too", &crons.delete("long").await?, &true)?;
    same("and then", &counted(&long).await?, &0)
}

async fn a_cron_is_created_only_on_the_thread_that_was_checked(store: Subject) -> CaseResult {
    let checked = store.create_thread(owned("bob")).await?;
    let create = async |id: &str| {
        let mut new = NewCron::new(id, "desk", "* * * * *", None, Request::default());
        (new.cron.thread, new.on) = (Some("t".to_owned()), ThreadIs::this(&checked));
        Crons::of(&*store).create(new).await
    };
    same("its thread", &create("a").await?.thread_created, &Some(checked.created))?;
    store.remove_thread("t").await?;
    tokio::time::sleep(Duration::from_millis(2)).await;
    store.create_thread(owned("alice")).await?;
    holds("another thread is refused", matches!(create("b").await, Err(RunsError::NoThread { .. })))?;
    same("the crons", &Crons::of(&*store).search(&CronQuery::default()).await?.len(), &1)
}

async fn runs_of_a_cron_that_were_missed_are_one(store: Subject) -> CaseResult {
    let long_ago = SystemTime::now() - Duration::from_hours(24);
    let (cron, next) = due_cron(&store, |cron| cron.next = Some(long_ago)).await?;
    let run = Crons::of(&*store).fire(&cron, SystemTime::now(), Some(next)).await?;
    same("its id", &some("the run", run)?.id, &cron.run_id(long_ago))?;
    let cron = some("the cron", Crons::of(&*store).get("c").await?)?;
    holds("the next is later", cron.next.is_some_and(|at| at > SystemTime::now()))?;
    same("fired again", &Crons::of(&*store).fire(&cron, SystemTime::now(), Some(next)).await?, &None)
}

async fn a_cron_that_cannot_be_fired_continues_or_is_disabled(store: Subject) -> CaseResult {
    add(&store, "t").await?;
    let (cron, next) = due_cron(&store, |cron| {
        cron.thread = Some("t".to_owned());
        cron.multitask_strategy = MultitaskStrategy::Reject;
    })
    .await?;
    let crons = Crons::of(&*store);
    same("on a busy thread", &crons.fire(&cron, SystemTime::now(), Some(next)).await?, &None)?;
    let mut cron = some("the cron", crons.get("c").await?)?;
    holds("it goes on", cron.enabled && cron.next.is_some_and(|at| at > SystemTime::now()))?;
    store.remove_thread("t").await?;
    cron.next = Some(SystemTime::now() - Duration::from_secs(1));
    crons.replace(&cron).await?;
    let cron = some("the cron", crons.get("c").await?)?;
    same("without its thread", &crons.fire(&cron, SystemTime::now(), Some(next)).await?, &None)?;
    same("whether it is enabled", &some("the cron", crons.get("c").await?)?.enabled, &false)
}

fn with_webhook(thread: &str) -> hier_core::runs::NewRun {
    let mut run = new(thread);
    run.request.webhook = Some("https://example.org/hook".to_owned());
    run
}

async fn the_end_of_a_run_is_kept_until_its_webhook_is_delivered(store: Subject) -> CaseResult {
    let run = store.create_run(with_webhook("t")).await?;
    let webhooks = Webhooks::of(&*store);
    same("before it has ended", &webhooks.all().await?, &Vec::new())?;
    let claimed = claim(&store).await?;
    let end = RunEnd::new(run.id, RunStatus::Success).output(json!({ "values": { "n": 1 } }));
    store.commit_run(&claimed.lease, RunCommit::default().end(end)).await?;
    // The thread of a run may be deleted before its end is delivered.
    store.remove_thread("t").await?;
    let (now, lasts) = (SystemTime::now(), Duration::from_mins(1));
    let due = webhooks.due(now).await?;
    same(
        "the addresses of the due webhooks",
        &due.iter().map(|due| &*due.address).collect::<Vec<_>>(),
        &vec!["https://example.org/hook"],
    )?;
    let (claimed, ended) = some("a claim", webhooks.claim(&due[0], now, lasts).await?)?;
    let ended = ended?;
    same("the run", &(ended.id, ended.status), &(run.id, RunStatus::Success))?;
    same("the output of the run", &ended.output, &Some(json!({ "values": { "n": 1 } })))?;
    holds("a second claim is refused", webhooks.claim(&due[0], now, lasts).await?.is_none())?;
    same("the webhooks that others can claim", &webhooks.due(now).await?, &Vec::new())?;
    same("when the claim is over", &webhooks.due(now + lasts).await?.len(), &1)?;
    webhooks.again(&claimed, now + Duration::from_secs(5)).await?;
    let again = webhooks.due(now + Duration::from_secs(5)).await?;
    same("the attempts", &again.iter().map(|due| due.attempts).collect::<Vec<_>>(), &vec![1])?;
    let (claimed, _) = some("a claim", webhooks.claim(&again[0], now, lasts).await?)?;
    webhooks.done(&claimed).await?;
    same("the webhooks after the delivery", &webhooks.all().await?, &Vec::new())
}

async fn runs_without_an_end_or_a_webhook_deliver_nothing(store: Subject) -> CaseResult {
    let webhooks = Webhooks::of(&*store);
    let (silent, undone, cancelled) = (
        add(&store, "a").await?,
        store.create_run(with_webhook("b")).await?,
        store.create_run(with_webhook("c")).await?,
    );
    store.cancel_runs("a", &[silent.id], Cancel::Interrupt).await?;
    store.cancel_runs("b", &[undone.id], Cancel::Rollback).await?;
    same("without a webhook, and rolled back", &webhooks.all().await?, &Vec::new())?;
    store.cancel_runs("c", &[cancelled.id], Cancel::Interrupt).await?;
    let ids: Vec<_> = webhooks.all().await?.into_iter().map(|ids| ids.id).collect();
    same("cancelled before it began", &ids, &vec![cancelled.id.to_string()])
}

async fn an_unreadable_document_blocks_no_other(store: Subject) -> CaseResult {
    for kind in ["assistant", "cron", "webhook", "webhook_path"] {
        store.put_document(Document::new(kind, "broken", json!(7)), None).await?;
    }
    due_cron(&store, |_| {}).await?;
    let crons = Crons::of(&*store).search(&CronQuery::default()).await?;
    same("the crons that are found", &crons.iter().map(|cron| &*cron.id).collect::<Vec<_>>(), &vec!["c"])?;
    let broken = Crons::of(&*store).get("broken").await;
    holds(
        "a read of the unreadable cron names it",
        broken.is_err_and(|error| error.to_string().contains("cron `broken`")),
    )?;
    let assistants = Assistants::of(&*store);
    assistants.create(NewAssistant::new("a", "desk")).await?;
    let found = assistants.search(&AssistantQuery::default()).await?;
    same("the assistants that are found", &found.iter().map(|found| &*found.id).collect::<Vec<_>>(), &vec!["a"])?;
    let run = store.create_run(with_webhook("t")).await?;
    store.cancel_runs("t", &[run.id], Cancel::Interrupt).await?;
    let (webhooks, now) = (Webhooks::of(&*store), SystemTime::now() + Duration::from_mins(1));
    let due = webhooks.due(now).await?;
    same("the due webhooks", &due.iter().map(|due| &*due.id).collect::<Vec<_>>(), &vec![&*run.id.to_string()])?;
    let mut new = new("path");
    new.request.webhook = Some("/hook".to_owned());
    let run = store.create_run(new).await?;
    store.cancel_runs("path", &[run.id], Cancel::Interrupt).await?;
    same("other webhooks are still due", &webhooks.due(now).await?, &due)?;
    let paths = webhooks.due_paths(now).await?;
    same("the due paths", &paths.iter().map(|due| &*due.id).collect::<Vec<_>>(), &vec![&*run.id.to_string()])?;
    let (claimed, _) = some("a claim", webhooks.claim(&paths[0], now, Duration::from_mins(1)).await?)?;
    webhooks.done(&claimed).await?;
    same("the paths after the delivery", &webhooks.due_paths(now).await?, &Vec::new())?;
    // The ended run of a webhook is a document of its own. Here it becomes unreadable.
    store.put_document(Document::new("webhook_run", &*due[0].id, json!(7)), Some(1)).await?;
    let (claimed, ended) = some("a claim", webhooks.claim(&due[0], now, Duration::from_mins(1)).await?)?;
    holds("the claim reports the unreadable run", ended.is_err_and(|error| error.to_string().contains(&*due[0].id)))?;
    same("the attempts", &claimed.attempts, &1)?;
    webhooks.done(&claimed).await?;
    same("once it is given up", &webhooks.due(now).await?.len(), &0)
}
