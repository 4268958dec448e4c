//! Cases about the index of threads.

use std::time::Duration;

use hier_core::checkpoint::{Checkpointer, Claim, InboxMessage, LONGEST_NAME, ListQuery, SaverError, background};
use hier_core::runs::{
    Cancel, Document, IfExists, NewThread, OneThread, Order, RunCommit, RunEnd, RunQuery, RunStatus, RunsError, SortBy,
    ThreadIndex, ThreadIs, ThreadPatch, ThreadQuery, ThreadStatus,
};
use serde_json::{Map, Value, json};
use tokio::time::sleep;
use uuid::Uuid;

use super::kit::{CaseResult, add, cases, checkpoint, claim, end_run, holds, new, same, some, thread};
use super::{ContractViolation, Subject};

cases!(super::Case, "threads":
    one_is_made_once,
    a_patch_is_merged,
    names_that_no_new_thread_may_have_are_refused,
    threads_are_found_by_their_values,
    numbers_are_found_in_whatever_form_they_are_written,
    they_come_in_order_and_in_pages,
    a_copy_has_the_history_and_no_runs,
    a_run_is_added_only_to_the_thread_that_it_is_for,
    a_change_of_a_deleted_thread_leaves_a_later_one_with_its_id_alone,
    an_expired_thread_is_swept_with_its_entry,
    a_thread_is_deleted_with_its_background_threads,
    the_thread_of_a_temporary_run_is_not_found,
    long_rows_are_read_like_short_ones,
);

fn object(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(object) => object,
        _ => Map::new(),
    }
}

async fn make(store: &Subject, id: &str, metadata: Value) -> CaseResult {
    let mut new = NewThread::new(id);
    new.metadata = object(metadata);
    store.create_thread(new).await?;
    Ok(())
}

async fn one_is_made_once(store: Subject) -> CaseResult {
    make(&store, "t", json!({ "a": 1 })).await?;
    let again = store.create_thread(NewThread::new("t")).await;
    holds("a second is refused", matches!(again, Err(RunsError::Exists { .. })))?;
    let mut lenient = NewThread::new("t");
    lenient.if_exists = IfExists::DoNothing;
    let found = store.create_thread(lenient).await?;
    same("the one that is there", &found.metadata, &object(json!({ "a": 1 })))?;
    same("its status", &found.status, &ThreadStatus::Idle)?;
    same("whether it can be deleted", &store.remove_thread("t").await?, &true)?;
    same("and again", &store.remove_thread("t").await?, &false)
}

async fn names_that_no_new_thread_may_have_are_refused(store: Subject) -> CaseResult {
    let (longest, longer) = ("x".repeat(LONGEST_NAME), "x".repeat(LONGEST_NAME + 1));
    make(&store, &longest, json!({})).await?;
    add(&store, &longest).await?;
    let refused = |result: Option<RunsError>| matches!(result, Some(RunsError::Saver(SaverError::Invalid(_))));
    for name in [longer, background::thread_of("x", "y"), String::new()] {
        holds("a thread is refused", refused(store.create_thread(NewThread::new(&name)).await.err()))?;
        holds("a run is refused", refused(store.create_run(new(&name).create_thread()).await.err()))?;
        holds("a copy is refused", refused(store.clone_thread(&longest, NewThread::new(&name)).await.err()))?;
        same("its runs", &store.runs(RunQuery::thread(&name)).await?.len(), &0)?;
    }
    same("the threads", &find(&store, |_| {}).await?, &longest)?;
    same("the threads with checkpoints", &store.admin()?.threads(None).await?, &Vec::new())
}

async fn a_patch_is_merged(store: Subject) -> CaseResult {
    make(&store, "t", json!({ "a": 1, "b": { "x": 1 } })).await?;
    store.update_thread("t", ThreadPatch::metadata(object(json!({ "b": 2, "c": 3 })))).await?;
    same("the metadata", &thread(&store, "t").await?.metadata, &object(json!({ "a": 1, "b": 2, "c": 3 })))?;
    let unknown = store.update_thread("u", ThreadPatch::default()).await;
    holds("an unknown one is refused", matches!(unknown, Err(RunsError::NoThread { .. })))
}

/// Returns the ids of the threads that match a query, in order.
async fn find(store: &Subject, change: impl FnOnce(&mut ThreadQuery)) -> Result<String, ContractViolation> {
    let mut query = ThreadQuery::default();
    change(&mut query);
    let found = store.search_threads(query.clone()).await?;
    same("the count", &store.count_threads(query).await?, &(found.len() as u64))?;
    let mut ids: Vec<_> = found.into_iter().map(|thread| thread.id).collect();
    ids.sort();
    Ok(ids.join(","))
}

async fn threads_are_found_by_their_values(store: Subject) -> CaseResult {
    make(&store, "a", json!({ "owner": "ann", "tags": ["x", "y"], "deep": { "k": 1, "l": 2 } })).await?;
    make(&store, "b", json!({ "owner": "bob", "tags": ["y"] })).await?;
    let run = add(&store, "b").await?;
    let lease = claim(&store).await?.lease;
    let index = ThreadIndex::new(ThreadStatus::Interrupted).values(json!({ "verdict": "no", "n": [1, 2] }));
    store.commit_run(&lease, RunCommit::default().index(index).end(RunEnd::new(run.id, RunStatus::Success))).await?;
    same("all", &find(&store, |_| {}).await?, &"a,b".to_owned())?;
    same(
        "by metadata",
        &find(&store, |query| query.metadata = object(json!({ "owner": "ann" }))).await?,
        &"a".to_owned(),
    )?;
    let tagged = |query: &mut ThreadQuery| query.metadata = object(json!({ "tags": ["y"] }));
    same("by an item", &find(&store, tagged).await?, &"a,b".to_owned())?;
    let deep = |query: &mut ThreadQuery| query.metadata = object(json!({ "deep": { "k": 1 } }));
    same("by a part", &find(&store, deep).await?, &"a".to_owned())?;
    same("by values", &find(&store, |query| query.values = object(json!({ "n": [2] }))).await?, &"b".to_owned())?;
    same("by status", &find(&store, |query| query.status = Some(ThreadStatus::Interrupted)).await?, &"b".to_owned())?;
    same("by id", &find(&store, |query| query.ids = Some(vec!["b".to_owned()])).await?, &"b".to_owned())?;
    let both = |query: &mut ThreadQuery| {
        query.metadata = object(json!({ "tags": ["y"] }));
        query.access = object(json!({ "owner": "ann" }));
    };
    same("by metadata and access", &find(&store, both).await?, &"a".to_owned())?;
    let contradictory = |query: &mut ThreadQuery| {
        both(query);
        query.metadata.insert("owner".to_owned(), "bob".into());
    };
    same("by another owner", &find(&store, contradictory).await?, &String::new())?;
    let hostile = |query: &mut ThreadQuery| query.metadata = object(json!({ "' or 1=1 --": "x" }));
    same("by a key that contains SQL", &find(&store, hostile).await?, &String::new())?;
    let mut bare = ThreadQuery::default();
    bare.with_values = false;
    let found = store.search_threads(bare).await?;
    holds("values are left out", found.iter().all(|thread| thread.values.is_none()))
}

async fn numbers_are_found_in_whatever_form_they_are_written(store: Subject) -> CaseResult {
    make(&store, "t", json!({ "whole": 4, "real": 5.0, "deep": { "list": [6.0] }, "large": u64::MAX })).await?;
    let run = add(&store, "t").await?;
    let lease = claim(&store).await?.lease;
    let index = ThreadIndex::new(ThreadStatus::Idle).values(json!({ "whole": 4, "real": 5.0 }));
    store.commit_run(&lease, RunCommit::default().index(index).end(RunEnd::new(run.id, RunStatus::Success))).await?;
    for (wanted, is_found) in [
        (json!({ "whole": 4 }), true),
        (json!({ "whole": 4.0 }), true),
        (json!({ "real": 5 }), true),
        (json!({ "real": 5.0 }), true),
        (json!({ "real": 5.5 }), false),
        (json!({ "whole": "4" }), false),
        (json!({ "whole": -4 }), false),
    ] {
        let expected = if is_found { "t".to_owned() } else { String::new() };
        let by_metadata = find(&store, |query| query.metadata = object(wanted.clone())).await?;
        same(&format!("by metadata {wanted}"), &by_metadata, &expected)?;
        let by_values = find(&store, |query| query.values = object(wanted.clone())).await?;
        same(&format!("by values {wanted}"), &by_values, &expected)?;
    }
    for wanted in [json!({ "deep": { "list": [6] } }), json!({ "large": u64::MAX })] {
        same("inside", &find(&store, |query| query.metadata = object(wanted)).await?, &"t".to_owned())?;
    }
    let smaller = |query: &mut ThreadQuery| query.metadata = object(json!({ "large": u64::MAX - 1 }));
    same("whole numbers are exact", &find(&store, smaller).await?, &String::new())
}

/// Returns the ids of a page as one text.
async fn ids(
    store: &Subject,
    sort_by: SortBy,
    order: Order,
    limit: usize,
    offset: usize,
) -> Result<String, ContractViolation> {
    let mut query = ThreadQuery::default();
    (query.sort_by, query.order, query.limit, query.offset) = (sort_by, order, limit, offset);
    Ok(store.search_threads(query).await?.into_iter().map(|thread| thread.id).collect())
}

async fn they_come_in_order_and_in_pages(store: Subject) -> CaseResult {
    for id in ["c", "a", "b"] {
        make(&store, id, json!({})).await?;
        sleep(Duration::from_millis(3)).await;
    }
    store.update_thread("a", ThreadPatch::default()).await?;
    same("by the last change", &ids(&store, SortBy::Updated, Order::Descending, 10, 0).await?, &"abc".to_owned())?;
    same("by age", &ids(&store, SortBy::Created, Order::Ascending, 10, 0).await?, &"cab".to_owned())?;
    same("by id", &ids(&store, SortBy::Id, Order::Ascending, 10, 0).await?, &"abc".to_owned())?;
    same("a page", &ids(&store, SortBy::Id, Order::Descending, 1, 1).await?, &"b".to_owned())
}

async fn a_copy_has_the_history_and_no_runs(store: Subject) -> CaseResult {
    let run = add(&store, "t").await?;
    let lease = claim(&store).await?.lease;
    let index = ThreadIndex::new(ThreadStatus::Interrupted).values(json!({ "n": 1 }));
    let settlement = RunCommit::records(vec![checkpoint(run.id, 0)]).index(index);
    store.commit_run(&lease, settlement.end(RunEnd::new(run.id, RunStatus::Success))).await?;
    add(&store, "t").await?;
    let mut to = NewThread::new("u");
    to.metadata.insert("owner".to_owned(), json!("bob"));
    let copy = store.clone_thread("t", to).await?;
    same("its owner", &thread(&store, "u").await?.metadata.get("owner"), &Some(&json!("bob")))?;
    same("the kept metadata", &copy.metadata.get("graph_id"), &thread(&store, "t").await?.metadata.get("graph_id"))?;
    same("its status", &copy.status, &ThreadStatus::Interrupted)?;
    same("its values", &thread(&store, "u").await?.values, &Some(json!({ "n": 1 })))?;
    same("its checkpoints", &store.list(ListQuery::thread("u")).await?.len(), &1)?;
    same("its runs", &store.runs(hier_core::runs::RunQuery::thread("u")).await?, &Vec::new())?;
    let again = store.clone_thread("t", NewThread::new("u")).await;
    holds("a second is refused", matches!(again, Err(RunsError::Exists { .. })))?;
    let unknown = store.clone_thread("nobody", NewThread::new("v")).await;
    holds("an unknown one is refused", matches!(unknown, Err(RunsError::NoThread { .. })))
}

async fn a_run_is_added_only_to_the_thread_that_it_is_for(store: Subject) -> CaseResult {
    let of = |owner: &str| object(json!({ "owner": owner }));
    make(&store, "t", json!({ "owner": "bob" })).await?;
    let before = thread(&store, "t").await?;
    let on = |created, owner: &str| {
        let (mut run, mut made) = (new("t"), NewThread::new("t"));
        made.metadata = of(owner);
        run.new_thread = Some(made);
        run.on = Some(ThreadIs { created, metadata: of(owner) });
        run
    };
    let added = store.create_run(on(Some(before.created), "bob")).await?;
    same("the run of its thread", &added.thread, &"t".to_owned())?;
    store.remove_thread("t").await?;
    sleep(Duration::from_millis(3)).await;
    make(&store, "t", json!({ "owner": "ann" })).await?;
    for (what, run) in [
        ("one for the thread before", on(Some(before.created), "ann")),
        ("one for another owner", on(None, "bob")),
        ("one for both", on(Some(before.created), "bob")),
    ] {
        let refused = store.create_run(run).await;
        holds(&format!("{what} is refused"), matches!(refused, Err(RunsError::NoThread { .. })))?;
    }
    same("its runs", &store.runs(hier_core::runs::RunQuery::thread("t")).await?, &Vec::new())?;
    same("its status", &thread(&store, "t").await?.status, &ThreadStatus::Idle)?;
    store.remove_thread("t").await?;
    // A thread that is created with the run belongs to the run.
    let added = store.create_run(on(None, "bob")).await?;
    same("the owner", &thread(&store, "t").await?.metadata.get("owner"), &Some(&json!("bob")))?;
    same("the run of a new thread", &added.thread, &"t".to_owned())
}

async fn a_change_of_a_deleted_thread_leaves_a_later_one_with_its_id_alone(store: Subject) -> CaseResult {
    make(&store, "t", json!({ "owner": "bob" })).await?;
    let before = thread(&store, "t").await?;
    let letter = |number: u128| InboxMessage::message(Uuid::from_u128(number), vec![0xc0]);
    holds("a message to the thread", store.post_if("t", ThreadIs::this(&before), "desk", letter(1)).await?.is_new())?;
    let patch = || {
        let mut patch = ThreadPatch::metadata(object(json!({ "by": "bob" })));
        patch.on = ThreadIs::this(&before);
        patch
    };
    same("its metadata", &store.update_thread("t", patch()).await?.metadata.get("by"), &Some(&json!("bob")))?;
    holds("it is deleted", store.remove_thread_if("t", ThreadIs::this(&before)).await?)?;
    holds("there is none", !store.remove_thread_if("t", ThreadIs::this(&before)).await?)?;
    let gone = store.post_if("t", ThreadIs::default(), "desk", letter(2)).await;
    holds("mail to none is refused", matches!(gone, Err(RunsError::Saver(SaverError::Deleted { .. }))))?;

    sleep(Duration::from_millis(3)).await;
    make(&store, "t", json!({ "owner": "ann" })).await?;
    let run = add(&store, "t").await?;
    let as_made = thread(&store, "t").await?;
    for is in [ThreadIs::this(&before), ThreadIs { created: None, metadata: object(json!({ "owner": "bob" })) }] {
        holds("nothing is deleted", !store.remove_thread_if("t", is.clone()).await?)?;
        let cancelled = store.cancel_runs_if("t", is.clone(), &[run.id], Cancel::Rollback).await;
        holds("nothing is cancelled", matches!(cancelled, Err(RunsError::NoThread { .. })))?;
        let posted = store.post_if("t", is.clone(), "desk", letter(3)).await;
        holds("nothing is sent", matches!(posted, Err(RunsError::Saver(SaverError::Deleted { .. }))))?;
        let saver = OneThread::new(store.clone(), is);
        let claimed = saver.acquire("t", Claim::default()).await;
        holds("nothing is claimed", matches!(claimed, Err(SaverError::Deleted { .. })))?;
    }
    let patched = store.update_thread("t", patch()).await;
    holds("nothing is changed", matches!(patched, Err(RunsError::NoThread { .. })))?;
    same("the thread", &thread(&store, "t").await?, &as_made)?;
    same("its mail", &store.inbox()?.messages("t").await?, &Vec::new())?;
    let is = ThreadIs::this(&as_made);
    let cancelled = store.cancel_runs_if("t", is.clone(), &[run.id], Cancel::Interrupt).await?;
    same("its own run is cancelled", &cancelled.len(), &1)?;
    let saver = OneThread::new(store.clone(), is);
    let lease = saver.acquire("t", Claim::default()).await?;
    saver.release(&lease).await?;
    Ok(())
}

async fn an_expired_thread_is_swept_with_its_entry(store: Subject) -> CaseResult {
    for id in ["short", "long", "busy"] {
        let mut made = NewThread::new(id);
        made.time_to_live = (id != "long").then_some(Duration::from_millis(20));
        store.create_thread(made).await?;
    }
    add(&store, "busy").await?;
    sleep(Duration::from_millis(60)).await;
    same("how many", &store.admin()?.sweep().await?, &1)?;
    same("the one", &store.thread("short").await?, &None)?;
    thread(&store, "long").await?;
    thread(&store, "busy").await.map(|_| ())
}

async fn a_thread_is_deleted_with_its_background_threads(store: Subject) -> CaseResult {
    for (id, time_to_live) in [("t", None), ("short", Some(Duration::from_millis(20)))] {
        let mut made = NewThread::new(id);
        made.time_to_live = time_to_live;
        store.create_thread(made).await?;
        let lease = store.acquire(&background::thread_of(id, "a-1"), Claim::default()).await?;
        store.commit(&lease, vec![checkpoint(Uuid::nil(), 0)].into()).await?;
        store.release(&lease).await?;
    }
    same("how many have checkpoints", &store.admin()?.threads(None).await?.len(), &2)?;
    holds("it is deleted", store.remove_thread("t").await?)?;
    same("how many are left", &store.admin()?.threads(None).await?.len(), &1)?;
    sleep(Duration::from_millis(60)).await;
    same("how many were swept", &store.admin()?.sweep().await?, &1)?;
    same("the threads", &store.admin()?.threads(None).await?, &Vec::new())
}

async fn the_thread_of_a_temporary_run_is_not_found(store: Subject) -> CaseResult {
    let mut asked = new("t");
    asked.temporary = true;
    let run = store.create_run(asked).await?;
    same("the search results", &store.search_threads(ThreadQuery::default()).await?, &Vec::new())?;
    let lease = claim(&store).await?.lease;
    let end = RunEnd::new(run.id, RunStatus::Success).output(json!({ "values": 1 }));
    store.commit_run(&lease, RunCommit::default().end(end)).await?;
    // A client that waits for the run still reads its output.
    same("its output", &store.run(run.id).await?.and_then(|run| run.output), &Some(json!({ "values": 1 })))?;
    holds("it does not live long", thread(&store, "t").await?.time_to_live.is_some())
}

/// A store may read short rows differently.
async fn long_rows_are_read_like_short_ones(store: Subject) -> CaseResult {
    for length in [10, 60_000, 70_000, 1_000_000] {
        let (id, text) = (format!("t{length}"), json!({ "text": "é".repeat(length) }));
        let mut asked = new(&id);
        asked.request.input = text.clone();
        let run = store.create_run(asked).await?;
        same("the input", &some("the run", store.run(run.id).await?)?.request.input, &text)?;
        let claimed = claim(&store).await?;
        same("the claimed input", &claimed.run.request.input, &text)?;
        let index = ThreadIndex::new(ThreadStatus::Idle).values(text.clone());
        let end = RunEnd::new(run.id, RunStatus::Success).output(text.clone());
        let settlement = RunCommit::default().index(index);
        store.commit_run(&claimed.lease, settlement.end(end)).await?;
        same("the output", &some("the run", store.run(run.id).await?)?.output, &Some(text.clone()))?;
        same("the values", &thread(&store, &id).await?.values, &Some(text.clone()))?;
        // Other changes keep the values.
        store.update_thread(&id, ThreadPatch::metadata(object(json!({ "a": 1 })))).await?;
        add(&store, &id).await?;
        end_run(&store, &claim(&store).await?).await?;
        same("the values after another run", &thread(&store, &id).await?.values, &Some(text.clone()))?;
        store.put_document(Document::new("kind", &*id, text.clone()), None).await?;
        let document = some("the document", store.document("kind", &id).await?)?;
        same("the document", &document.value, &text)?;
    }
    Ok(())
}
