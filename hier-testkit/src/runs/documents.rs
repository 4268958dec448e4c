//! Documents, and what is made of them.

use std::time::{Duration, SystemTime};

use hier_core::runs::{
    AssistantPatch, AssistantQuery, Assistants, CronQuery, Crons, Document, NewAssistant, NewCron, Request, RunsError,
};
use serde_json::json;

use super::Subject;
use super::kit::{Outcome, cases, holds, same, some};

cases!("documents":
    one_is_replaced_by_who_has_seen_it,
    kinds_are_apart,
    assistants_have_versions,
    assistants_are_found,
    of_several_that_fire_a_cron_one_is_first,
);

async fn one_is_replaced_by_who_has_seen_it(store: Subject) -> Outcome {
    let document = |value| Document::new("kind", "a", json!(value));
    same("a new one", &store.put_document(document(1), None).await?, &true)?;
    same("a new one again", &store.put_document(document(2), None).await?, &false)?;
    same("a change", &store.put_document(document(3), Some(1)).await?, &true)?;
    same("a late change", &store.put_document(document(4), Some(1)).await?, &false)?;
    let found = some("the document", store.document("kind", "a").await?)?;
    same("what it is", &(found.revision, found.value), &(2, json!(3)))?;
    same("whether it can be deleted", &store.remove_document("kind", "a").await?, &true)?;
    same("and again", &store.remove_document("kind", "a").await?, &false)?;
    same("a change of nothing", &store.put_document(document(5), Some(2)).await?, &false)
}

async fn kinds_are_apart(store: Subject) -> Outcome {
    for (kind, id) in [("x", "b"), ("x", "a"), ("y", "a")] {
        store.put_document(Document::new(kind, id, json!(kind)), None).await?;
    }
    let ids: Vec<_> = store.documents("x").await?.into_iter().map(|document| document.id).collect();
    same("those of one", &ids, &["a", "b"].map(str::to_owned).to_vec())?;
    store.remove_document("x", "a").await?;
    same("that of the other", &store.document("y", "a").await?.map(|found| found.value), &Some(json!("y")))
}

async fn assistants_have_versions(store: Subject) -> Outcome {
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

async fn assistants_are_found(store: Subject) -> Outcome {
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

async fn of_several_that_fire_a_cron_one_is_first(store: Subject) -> Outcome {
    let crons = Crons::of(&*store);
    let due = SystemTime::now() - Duration::from_secs(1);
    crons.create(NewCron::new("c", "desk", "* * * * *", Some(due), Request::default())).await?;
    let found = crons.due(SystemTime::now()).await?;
    let cron = some("the cron", found.first().cloned())?;
    same("the run's id", &cron.run_id(due), &some("the cron", crons.get("c").await?)?.run_id(due))?;
    holds("the next run's is another", cron.run_id(due) != cron.run_id(due + Duration::from_secs(60)))?;
    let mut next = cron.clone();
    next.next = Some(SystemTime::now() + Duration::from_secs(60));
    same("the first", &crons.replace(&next).await?, &true)?;
    same("the second", &crons.replace(&next).await?, &false)?;
    same("what is due then", &crons.due(SystemTime::now()).await?, &Vec::new())?;
    same("all", &crons.search(&CronQuery::default()).await?.len(), &1)
}
