//! Cases about inboxes and due times of threads.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use uuid::Uuid;

use super::kit::ChannelChange::Set;
use super::kit::{Branch, CaseResult, claim, get, has_values, holds, same, superseded};
use super::{ContractViolation, Subject};
use hier_core::checkpoint::{
    Checkpointer, Commit, DueChange, DueQuery, INBOX_BYTES, InboxMessage, Prune, SaverError, SideEffects, Strategy,
    background,
};

/// Defines the cases of the group `inbox`. A saver without an inbox passes these cases.
macro_rules! inbox_cases {
    ($($name:ident),+ $(,)?) => {
        pub(super) const CASES: &[super::Case] = &[$(super::Case {
            group: "inbox",
            name: stringify!($name),
            config: (),
            test: |saver| Box::pin(async move {
                if saver.inbox().is_ok() { $name(saver).await } else { Ok(()) }
            }),
        }),+];
    };
}

inbox_cases!(
    messages_keep_their_order,
    a_known_message_id_changes_nothing,
    messages_are_taken_with_the_commit,
    a_commit_that_takes_an_unknown_message_stores_nothing,
    a_superseded_writer_takes_nothing,
    an_inbox_is_bounded_in_bytes,
    an_inbox_is_deleted_with_its_thread,
    an_inbox_is_not_copied,
    pruning_keeps_the_inbox,
    sweeping_keeps_the_inbox_of_a_thread_without_history,
    threads_are_due_by_time_and_graph,
    due_threads_are_listed_in_pages,
    no_later_than_keeps_the_earlier,
    exactly_replaces_unless_a_signal_came,
    a_signal_makes_a_thread_due_and_a_message_does_not,
    a_signal_keeps_the_graph_of_a_thread,
    a_driven_thread_is_due_until_its_driver_has_ended,
    a_postponed_thread_keeps_its_other_data,
    a_copy_is_due_when_its_source_is,
);

fn letter(number: u128, text: &str) -> InboxMessage {
    InboxMessage::message(Uuid::from_u128(number), text.as_bytes().to_vec())
}

fn signal(number: u128, name: &str) -> InboxMessage {
    InboxMessage::signal(Uuid::from_u128(number), name, b"value".to_vec())
}

async fn waiting(saver: &Subject, thread: &str) -> Result<Vec<InboxMessage>, ContractViolation> {
    Ok(saver.inbox()?.messages(thread).await?.into_iter().map(|posted| posted.message).collect())
}

fn at(seconds: u64) -> SystemTime {
    UNIX_EPOCH + Duration::from_secs(2_000_000_000 + seconds)
}

async fn due(saver: &Subject, seconds: u64, graphs: &[&str]) -> Result<Vec<String>, ContractViolation> {
    let graphs = graphs.iter().map(|graph| (*graph).to_owned()).collect();
    let found = saver.inbox()?.due(DueQuery::new(at(seconds), graphs, 10)).await?;
    Ok(found.into_iter().map(|due| due.thread.to_string()).collect())
}

fn is_invalid<T: std::fmt::Debug>(what: &str, result: &Result<T, SaverError>) -> CaseResult {
    match result {
        Err(SaverError::Invalid(_)) => Ok(()),
        other => Err(ContractViolation(format!("{what}: {other:?} instead of `Invalid`"))),
    }
}

async fn messages_keep_their_order(saver: Subject) -> CaseResult {
    same("an unknown thread's mail", &waiting(&saver, "t").await?, &Vec::new())?;
    let held = claim(&saver, "t").await?;
    let letters = [letter(3, "a"), signal(1, "s"), letter(2, "")];
    for letter in &letters {
        holds("it is new", saver.inbox()?.post("t", "g", letter.clone()).await?.is_new())?;
    }
    holds("it is new to another thread", saver.inbox()?.post("u", "g", letters[0].clone()).await?.is_new())?;
    same("the messages", &waiting(&saver, "t").await?, &letters.to_vec())?;
    let numbers: Vec<u64> = saver.inbox()?.messages("t").await?.iter().map(|posted| posted.number).collect();
    holds("their numbers grow", numbers.is_sorted_by(|a, b| a < b))?;
    holds("the lease is not touched", saver.commit(&held, Vec::new().into()).await.is_ok())
}

async fn a_known_message_id_changes_nothing(saver: Subject) -> CaseResult {
    saver.inbox()?.post("t", "g", letter(1, "first")).await?;
    holds("the id is known", !saver.inbox()?.post("t", "g", letter(1, "second")).await?.is_new())?;
    same("the messages", &waiting(&saver, "t").await?, &vec![letter(1, "first")])?;
    let lease = claim(&saver, "t").await?;
    saver.commit(&lease, Commit::new(Vec::new()).also(SideEffects::taking(vec![Uuid::from_u128(1)]))).await?;
    holds(
        "the id is known after a run has received the message",
        !saver.inbox()?.post("t", "g", letter(1, "third")).await?.is_new(),
    )?;
    same("the messages at the end", &waiting(&saver, "t").await?, &Vec::new())
}

async fn messages_are_taken_with_the_commit(saver: Subject) -> CaseResult {
    for number in 1..=3 {
        saver.inbox()?.post("t", "g", letter(number, "x")).await?;
    }
    let lease = claim(&saver, "t").await?;
    let mut branch = Branch::root();
    let taken = SideEffects::taking(vec![Uuid::from_u128(3), Uuid::from_u128(1)]);
    saver.commit(&lease, Commit::new(vec![branch.next(&[Set("x", b"1")])]).also(taken)).await?;
    same("the remaining messages", &waiting(&saver, "t").await?, &vec![letter(2, "x")])?;
    has_values("the checkpoint", &get(&saver, "t", "", None).await?, &[("x", &[b"1"])])?;
    saver.commit(&lease, Commit::new(vec![branch.next(&[Set("x", b"2")])]).also(SideEffects::default())).await?;
    has_values("a commit without side effects", &get(&saver, "t", "", None).await?, &[("x", &[b"2"])])
}

async fn a_commit_that_takes_an_unknown_message_stores_nothing(saver: Subject) -> CaseResult {
    saver.inbox()?.post("t", "g", letter(1, "x")).await?;
    saver.inbox()?.post("u", "g", letter(2, "x")).await?;
    let lease = claim(&saver, "t").await?;
    let mut branch = Branch::root();
    for unknown in [2, 3] {
        let taken = SideEffects::taking(vec![Uuid::from_u128(1), Uuid::from_u128(unknown)]);
        is_invalid(
            "an unknown message",
            &saver.commit(&lease, Commit::new(vec![branch.clone().next(&[])]).also(taken)).await,
        )?;
    }
    same("the messages", &waiting(&saver, "t").await?, &vec![letter(1, "x")])?;
    same("the stored data", &saver.get("t", "", None).await?, &None)?;
    saver
        .commit(&lease, Commit::new(vec![branch.next(&[])]).also(SideEffects::taking(vec![Uuid::from_u128(1)])))
        .await?;
    let again = saver
        .commit(&lease, Commit::new(vec![branch.next(&[])]).also(SideEffects::taking(vec![Uuid::from_u128(1)])))
        .await;
    is_invalid("one that was taken", &again)
}

async fn a_superseded_writer_takes_nothing(saver: Subject) -> CaseResult {
    saver.inbox()?.post("t", "g", letter(1, "x")).await?;
    let old = claim(&saver, "t").await?;
    let new = claim(&saver, "t").await?;
    let taken = || SideEffects::taking(vec![Uuid::from_u128(1)]);
    superseded(
        "the old run's commit",
        &saver.commit(&old, Commit::new(vec![Branch::root().next(&[])]).also(taken())).await,
    )?;
    let exactly = DueChange::Exactly { at: Some(at(0)), graph: "g".into(), seen: 0 };
    superseded("its timer", &saver.commit(&old, Commit::new(Vec::new()).also(SideEffects::due(exactly))).await)?;
    same("the messages", &waiting(&saver, "t").await?, &vec![letter(1, "x")])?;
    same("the due threads", &due(&saver, 9, &["g"]).await?, &Vec::new())?;
    saver.commit(&new, Commit::new(vec![Branch::root().next(&[])]).also(taken())).await?;
    same("the messages at the end", &waiting(&saver, "t").await?, &Vec::new())
}

async fn an_inbox_is_bounded_in_bytes(saver: Subject) -> CaseResult {
    let half = |number: u128| InboxMessage::message(Uuid::from_u128(number), vec![7; INBOX_BYTES / 2]);
    saver.inbox()?.post("t", "g", half(1)).await?;
    match saver.inbox()?.post("t", "g", half(2)).await {
        Err(SaverError::InboxFull { thread }) => same("the thread", &thread, &"t".to_owned())?,
        other => return Err(ContractViolation(format!("{other:?} instead of `InboxFull`"))),
    }
    holds("another thread has room", saver.inbox()?.post("u", "g", half(2)).await?.is_new())?;
    let lease = claim(&saver, "t").await?;
    saver.commit(&lease, Commit::new(Vec::new()).also(SideEffects::taking(vec![Uuid::from_u128(1)]))).await?;
    holds("there is room again, and the id is new", saver.inbox()?.post("t", "g", half(2)).await?.is_new())?;
    // If the run that took a message is rolled back, the message returns to the inbox. It therefore still needs room.
    let mut taking = SideEffects::taking(vec![Uuid::from_u128(2)]);
    taking.run = Some(Uuid::from_u128(3));
    saver.commit(&lease, Commit::new(Vec::new()).also(taking)).await?;
    match saver.inbox()?.post("t", "g", half(4)).await {
        Err(SaverError::InboxFull { .. }) => Ok(()),
        other => Err(ContractViolation(format!("{other:?} instead of `InboxFull`"))),
    }
}

async fn an_inbox_is_deleted_with_its_thread(saver: Subject) -> CaseResult {
    let lease = claim(&saver, "t").await?;
    saver.commit(&lease, vec![Branch::root().next(&[])].into()).await?;
    for thread in ["t", "only mail"] {
        saver.inbox()?.post(thread, "g", signal(1, "s")).await?;
        saver.delete_thread(thread).await?;
        same("the messages", &waiting(&saver, thread).await?, &Vec::new())?;
    }
    let inner = background::thread_of("t", "a-1");
    saver.inbox()?.post(&inner, "g", signal(1, "s")).await?;
    saver.delete_thread("t").await?;
    same("the messages of the background thread", &waiting(&saver, &inner).await?, &Vec::new())?;
    same("the due threads", &due(&saver, 9, &["g"]).await?, &Vec::new())?;
    holds("the id is new again", saver.inbox()?.post("t", "g", signal(1, "s")).await?.is_new())
}

async fn an_inbox_is_not_copied(saver: Subject) -> CaseResult {
    let lease = claim(&saver, "t").await?;
    saver.commit(&lease, vec![Branch::root().next(&[])].into()).await?;
    saver.inbox()?.post("t", "g", signal(1, "s")).await?;
    saver.inbox()?.post("copy", "g", letter(2, "of what was there before")).await?;
    saver.admin()?.copy_thread("t", "copy").await?;
    same("the messages of the copy", &waiting(&saver, "copy").await?, &Vec::new())?;
    same("the messages of the source", &waiting(&saver, "t").await?, &vec![signal(1, "s")])?;
    // The copy is due when its source is due, although its inbox is empty.
    same("the due threads", &due(&saver, 9, &["g"]).await?.len(), &2)
}

async fn pruning_keeps_the_inbox(saver: Subject) -> CaseResult {
    let lease = claim(&saver, "t").await?;
    saver.commit(&lease, vec![Branch::root().next(&[])].into()).await?;
    saver.release(&lease).await?;
    saver.inbox()?.post("t", "g", signal(1, "s")).await?;
    let prune = Prune { strategy: Strategy::KeepLatest, ..Prune::default() };
    saver.admin()?.prune(prune).await?;
    same("the messages", &waiting(&saver, "t").await?, &vec![signal(1, "s")])?;
    same("the due threads", &due(&saver, 9, &["g"]).await?, &vec!["t".to_owned()])
}

async fn sweeping_keeps_the_inbox_of_a_thread_without_history(saver: Subject) -> CaseResult {
    saver.inbox()?.post("t", "g", letter(1, "x")).await?;
    let lease = claim(&saver, "t").await?;
    saver.release(&lease).await?;
    saver.admin()?.sweep().await?;
    same("the messages", &waiting(&saver, "t").await?, &vec![letter(1, "x")])
}

async fn is_due(saver: &Subject, thread: &str, due: DueChange) -> CaseResult {
    let lease = claim(saver, thread).await?;
    saver.commit(&lease, Commit::default().also(SideEffects::due(due))).await?;
    Ok(())
}

fn exactly(at: Option<SystemTime>, seen: u64) -> DueChange {
    DueChange::Exactly { at, graph: "g".into(), seen }
}

async fn threads_are_due_by_time_and_graph(saver: Subject) -> CaseResult {
    for (thread, graph, seconds) in [("a", "g", 3), ("b", "h", 2), ("c", "g", 1), ("d", "g", 9)] {
        is_due(&saver, thread, DueChange::NoLaterThan { at: at(seconds), graph: graph.into() }).await?;
    }
    same("at first", &due(&saver, 0, &["g", "h"]).await?, &Vec::new())?;
    same("of one graph", &due(&saver, 3, &["g"]).await?, &vec!["c".to_owned(), "a".to_owned()])?;
    let of_both = ["c", "b", "a"].map(str::to_owned).to_vec();
    same("of both graphs", &due(&saver, 8, &["g", "h"]).await?, &of_both)?;
    same("of none", &due(&saver, 8, &[]).await?, &Vec::new())?;
    let two = saver.inbox()?.due(DueQuery::new(at(9), vec!["g".to_owned(), "h".to_owned()], 2)).await?;
    let two: Vec<_> = two.into_iter().map(|due| (due.thread.to_string(), due.at)).collect();
    same("two of them", &two, &vec![("c".to_owned(), at(1)), ("b".to_owned(), at(2))])
}

async fn due_threads_are_listed_in_pages(saver: Subject) -> CaseResult {
    // Some threads have the same due time. Databases with language-specific collations sort these names differently.
    // Some databases store U+0000 escaped.
    let at_one = [("é", 1, "g"), ("a", 1, "h"), ("aB", 1, "g"), ("a\0", 1, "g"), ("B", 1, "g")];
    let threads = at_one.into_iter().chain([("c'\\", 2, "g"), ("a2", 3, "h"), ("later", 9, "g")]);
    for (thread, seconds, graph) in threads.clone() {
        let lease = claim(&saver, thread).await?;
        let change = DueChange::Exactly { at: Some(at(seconds)), graph: graph.into(), seen: 0 };
        saver.commit(&lease, Commit::new(Vec::new()).also(SideEffects::due(change))).await?;
    }
    let graphs = vec!["g".to_owned(), "h".to_owned()];
    let (mut found, mut last) = (Vec::new(), None);
    for _ in threads {
        let page = saver.inbox()?.due(DueQuery::new(at(5), graphs.clone(), 2).after(last.clone())).await?;
        last = page.last().cloned();
        found.extend(page.into_iter().map(|due| due.thread.to_string()));
        if last.is_none() {
            break;
        }
    }
    same("all pages", &found, &["B", "a", "a\0", "aB", "é", "c'\\", "a2"].map(str::to_owned).to_vec())
}

async fn no_later_than_keeps_the_earlier(saver: Subject) -> CaseResult {
    for seconds in [5, 3, 7] {
        is_due(&saver, "t", DueChange::NoLaterThan { at: at(seconds), graph: "g".into() }).await?;
    }
    same("before", &due(&saver, 2, &["g"]).await?, &Vec::new())?;
    same("then", &due(&saver, 3, &["g"]).await?, &vec!["t".to_owned()])?;
    is_due(&saver, "t", exactly(Some(at(5)), 0)).await?;
    same("later", &due(&saver, 4, &["g"]).await?, &Vec::new())?;
    is_due(&saver, "t", exactly(None, 0)).await?;
    same("never", &due(&saver, 99, &["g"]).await?, &Vec::new())
}

async fn exactly_replaces_unless_a_signal_came(saver: Subject) -> CaseResult {
    saver.inbox()?.post("t", "g", signal(1, "s")).await?;
    let seen = saver.inbox()?.messages("t").await?.last().map_or(0, |posted| posted.number);
    saver.inbox()?.post("t", "g", signal(2, "s")).await?;
    is_due(&saver, "t", exactly(None, seen)).await?;
    same("one came meanwhile", &due(&saver, 0, &["g"]).await?, &vec!["t".to_owned()])?;
    let seen = saver.inbox()?.messages("t").await?.last().map_or(0, |posted| posted.number);
    is_due(&saver, "t", exactly(Some(at(5)), seen)).await?;
    same("all are known", &due(&saver, 4, &["g"]).await?, &Vec::new())?;
    saver.inbox()?.post("t", "g", letter(3, "a message")).await?;
    is_due(&saver, "t", exactly(None, seen)).await?;
    same("a message came", &due(&saver, 9, &["g"]).await?, &Vec::new())
}

async fn a_signal_makes_a_thread_due_and_a_message_does_not(saver: Subject) -> CaseResult {
    saver.inbox()?.post("message", "g", letter(1, "x")).await?;
    saver.inbox()?.post("signal", "g", signal(1, "s")).await?;
    saver.inbox()?.post("other", "h", signal(1, "s")).await?;
    same("the due threads", &due(&saver, 0, &["g"]).await?, &vec!["signal".to_owned()])
}

async fn a_signal_keeps_the_graph_of_a_thread(saver: Subject) -> CaseResult {
    is_due(&saver, "t", exactly(Some(at(5)), 0)).await?;
    saver.inbox()?.post("t", "h", signal(1, "s")).await?;
    same("of the other", &due(&saver, 9, &["h"]).await?, &Vec::new())?;
    same("the due threads of its own", &due(&saver, 0, &["g"]).await?, &vec!["t".to_owned()])
}

/// Returns the threads of a graph that are due within this number of seconds, and whether a worker drives them.
async fn driven(saver: &Subject, seconds: u64) -> Result<Vec<(String, bool)>, ContractViolation> {
    let found = saver.inbox()?.due(DueQuery::new(at(seconds), vec!["g".to_owned()], 9)).await?;
    Ok(found.into_iter().map(|due| (due.thread.to_string(), due.driven)).collect())
}

async fn a_driven_thread_is_due_until_its_driver_has_ended(saver: Subject) -> CaseResult {
    is_due(&saver, "t", DueChange::Driven { until: at(5), graph: "g".into() }).await?;
    same("before", &driven(&saver, 4).await?, &Vec::new())?;
    same("then", &driven(&saver, 5).await?, &vec![("t".to_owned(), true)])?;
    is_due(&saver, "t", DueChange::NoLaterThan { at: at(3), graph: "g".into() }).await?;
    saver.inbox()?.post("t", "g", signal(1, "s")).await?;
    is_due(&saver, "t", DueChange::Driven { until: at(5), graph: "g".into() }).await?;
    same("with a signal", &driven(&saver, 0).await?, &vec![("t".to_owned(), true)])?;
    let lease = claim(&saver, "t").await?;
    holds("the next claim reports it", lease.driven)?;
    let seen = saver.inbox()?.messages("t").await?.last().map_or(0, |posted| posted.number);
    saver.commit(&lease, Commit::new(Vec::new()).also(SideEffects::due(exactly(Some(at(7)), seen)))).await?;
    same("once it has ended", &driven(&saver, 7).await?, &vec![("t".to_owned(), false)])?;
    holds("it is not driven", !claim(&saver, "t").await?.driven)
}

async fn a_postponed_thread_keeps_its_other_data(saver: Subject) -> CaseResult {
    is_due(&saver, "t", DueChange::Driven { until: at(1), graph: "g".into() }).await?;
    for thread in ["t", "unknown"] {
        is_due(&saver, thread, DueChange::Postponed { until: at(5) }).await?;
    }
    same("before", &driven(&saver, 4).await?, &Vec::new())?;
    same("then", &driven(&saver, 5).await?, &vec![("t".to_owned(), true)])
}

async fn a_copy_is_due_when_its_source_is(saver: Subject) -> CaseResult {
    let lease = claim(&saver, "t").await?;
    let change = DueChange::Driven { until: at(5), graph: "g".into() };
    saver
        .commit(&lease, Commit::new(vec![Branch::root().next(&[Set("x", b"1")])]).also(SideEffects::due(change)))
        .await?;
    saver.inbox()?.post("t", "g", letter(1, "x")).await?;
    saver.admin()?.copy_thread("t", "copy").await?;
    same("before", &driven(&saver, 4).await?, &Vec::new())?;
    let both = vec![("copy".to_owned(), false), ("t".to_owned(), true)];
    same("then", &driven(&saver, 5).await?, &both)?;
    same("the messages of the copy", &saver.inbox()?.messages("copy").await?.len(), &0)?;
    saver.admin()?.copy_thread("unknown", "copy").await?;
    same("the copy of nothing", &driven(&saver, 5).await?, &vec![("t".to_owned(), true)])
}
