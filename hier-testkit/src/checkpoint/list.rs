//! Cases about lists of checkpoints and threads.

use serde_json::{Map, Value, json};
use uuid::Uuid;

use super::kit::ChannelChange::Set;
use super::kit::{Branch, CaseResult, LONG_AGO, cases, claim, ids, new_id, same};
use super::{ContractViolation, Subject};
use hier_core::checkpoint::{Checkpoint, Checkpointer, Claim, ListQuery};

cases!(super::Case, "list":
    checkpoints_come_newest_first,
    of_one_thread,
    of_one_namespace,
    of_all_threads,
    before_an_id,
    at_most_the_limit,
    page_by_page,
    by_source_and_by_step,
    by_own_metadata,
    by_several_at_once,
    by_metadata_without_matches,
    a_filter_is_applied_before_the_limit,
    threads_with_the_newest_first,
    threads_report_their_holders,
);

/// Commits five checkpoints of a thread, and returns them, oldest first. The first one has the source `input`, and the
/// others have `loop`. Their steps begin at -1. Their metadata contains `turn` and `user`.
async fn five(saver: &Subject, thread: &str) -> Result<Vec<Checkpoint>, ContractViolation> {
    let lease = claim(saver, thread).await?;
    let mut branch = Branch::root();
    let mut made = Vec::new();
    for turn in 0..5 {
        branch.metadata.insert("turn".to_owned(), json!(turn));
        branch.metadata.insert("user".to_owned(), json!(if turn % 2 == 0 { "even" } else { "odd" }));
        saver.commit(&lease, vec![branch.next(&[Set("x", b"v")])].into()).await?;
        made.push(branch.tip()?.clone());
    }
    Ok(made)
}

async fn list_ids(saver: &Subject, query: ListQuery) -> Result<Vec<Uuid>, ContractViolation> {
    Ok(saver.list(query).await?.into_iter().map(|listed| listed.checkpoint.id).collect())
}

fn newest_first<'a>(made: impl DoubleEndedIterator<Item = &'a Checkpoint>) -> Vec<Uuid> {
    made.rev().map(|checkpoint| checkpoint.id).collect()
}

async fn by(saver: &Subject, filter: &[(&str, Value)]) -> Result<Vec<Uuid>, ContractViolation> {
    let filter: Map<String, Value> = filter.iter().map(|(key, value)| ((*key).to_owned(), value.clone())).collect();
    list_ids(saver, ListQuery { filter, ..ListQuery::thread("t") }).await
}

async fn checkpoints_come_newest_first(saver: Subject) -> CaseResult {
    let mut made = five(&saver, "t").await?;
    let listed = saver.list(ListQuery::thread("t")).await?;
    made.reverse();
    let checkpoints: Vec<_> = listed.iter().map(|listed| listed.checkpoint.clone()).collect();
    same("the checkpoints", &checkpoints, &made)?;
    let places: Vec<_> = listed.iter().map(|listed| (&*listed.thread, &*listed.namespace)).collect();
    same("where they are", &places, &vec![("t", ""); 5])
}

async fn of_one_thread(saver: Subject) -> CaseResult {
    let made = five(&saver, "t").await?;
    five(&saver, "other").await?;
    same("the checkpoints", &list_ids(&saver, ListQuery::thread("t")).await?, &newest_first(made.iter()))?;
    same("those of an unknown thread", &list_ids(&saver, ListQuery::thread("unknown")).await?, &Vec::new())
}

async fn of_one_namespace(saver: Subject) -> CaseResult {
    let made = five(&saver, "t").await?;
    let lease = claim(&saver, "t").await?;
    let mut child = Branch::within("child");
    saver.commit(&lease, vec![child.next(&[])].into()).await?;
    let child = child.tip()?.id;
    same("those of the root", &ids(&saver, "t", "").await?, &newest_first(made.iter()))?;
    same("those of the child", &ids(&saver, "t", "child").await?, &vec![child])?;
    let all = ListQuery { namespace: None, ..ListQuery::thread("t") };
    same("those of all", &list_ids(&saver, all).await?, &[vec![child], newest_first(made.iter())].concat())
}

async fn of_all_threads(saver: Subject) -> CaseResult {
    let first = five(&saver, "t").await?;
    let second = five(&saver, "other").await?;
    let all: Vec<_> = first.iter().chain(&second).cloned().collect();
    same("all", &list_ids(&saver, ListQuery::default()).await?, &newest_first(all.iter()))?;
    let two = ListQuery { limit: Some(2), ..ListQuery::default() };
    same("the newest two of all", &list_ids(&saver, two).await?, &newest_first(second[3..].iter()))
}

async fn before_an_id(saver: Subject) -> CaseResult {
    let made = five(&saver, "t").await?;
    let before = |id| ListQuery { before: Some(id), ..ListQuery::thread("t") };
    let wanted = newest_first(made[..3].iter());
    same("those before the fourth", &list_ids(&saver, before(made[3].id)).await?, &wanted)?;
    same("those before the first", &list_ids(&saver, before(made[0].id)).await?, &Vec::new())?;
    same("those before an id of now", &list_ids(&saver, before(new_id())).await?, &newest_first(made.iter()))
}

async fn at_most_the_limit(saver: Subject) -> CaseResult {
    let made = five(&saver, "t").await?;
    let limit = |limit| ListQuery { limit: Some(limit), ..ListQuery::thread("t") };
    for count in [0, 1, 4, 5, 100] {
        let wanted = newest_first(made[5_usize.saturating_sub(count)..].iter());
        same(&format!("the newest {count}"), &list_ids(&saver, limit(count)).await?, &wanted)?;
    }
    same("as many as there can be", &list_ids(&saver, limit(usize::MAX)).await?, &newest_first(made.iter()))
}

async fn page_by_page(saver: Subject) -> CaseResult {
    let made = five(&saver, "t").await?;
    let mut query = ListQuery { limit: Some(2), ..ListQuery::thread("t") };
    let mut all = Vec::new();
    loop {
        let page = list_ids(&saver, query.clone()).await?;
        let Some(last) = page.last() else { break };
        query.before = Some(*last);
        all.extend(page);
        if all.len() > 5 {
            break;
        }
    }
    same("all pages", &all, &newest_first(made.iter()))
}

async fn by_source_and_by_step(saver: Subject) -> CaseResult {
    let made = five(&saver, "t").await?;
    same("the inputs", &by(&saver, &[("source", json!("input"))]).await?, &vec![made[0].id])?;
    same("the loops", &by(&saver, &[("source", json!("loop"))]).await?, &newest_first(made[1..].iter()))?;
    same("step 1", &by(&saver, &[("step", json!(1))]).await?, &vec![made[2].id])?;
    same("step -1", &by(&saver, &[("step", json!(-1))]).await?, &vec![made[0].id])?;
    same("no such source", &by(&saver, &[("source", json!("update"))]).await?, &Vec::new())
}

async fn by_own_metadata(saver: Subject) -> CaseResult {
    let made = five(&saver, "t").await?;
    same("a number", &by(&saver, &[("turn", json!(3))]).await?, &vec![made[3].id])?;
    let even = vec![made[4].id, made[2].id, made[0].id];
    same("a text", &by(&saver, &[("user", json!("even"))]).await?, &even)?;
    same("a text does not match a number", &by(&saver, &[("turn", json!("3"))]).await?, &Vec::new())
}

async fn by_several_at_once(saver: Subject) -> CaseResult {
    let made = five(&saver, "t").await?;
    let both = [("user", json!("even")), ("source", json!("loop"))];
    same("both", &by(&saver, &both).await?, &vec![made[4].id, made[2].id])?;
    let all = [("user", json!("even")), ("source", json!("loop")), ("step", json!(1)), ("turn", json!(2))];
    same("all four", &by(&saver, &all).await?, &vec![made[2].id])
}

async fn by_metadata_without_matches(saver: Subject) -> CaseResult {
    five(&saver, "t").await?;
    same("an unknown key", &by(&saver, &[("nope", json!(1))]).await?, &Vec::new())?;
    same("an unknown key that is null", &by(&saver, &[("nope", Value::Null)]).await?, &Vec::new())?;
    let one_of_two = [("user", json!("even")), ("turn", json!(1))];
    same("one of two", &by(&saver, &one_of_two).await?, &Vec::new())
}

async fn a_filter_is_applied_before_the_limit(saver: Subject) -> CaseResult {
    let made = five(&saver, "t").await?;
    let filter = [("user".to_owned(), json!("odd"))].into_iter().collect();
    let query = ListQuery { filter, limit: Some(2), ..ListQuery::thread("t") };
    same("the newest two that are odd", &list_ids(&saver, query).await?, &vec![made[3].id, made[1].id])?;
    let filter = [("source".to_owned(), json!("input"))].into_iter().collect();
    let query = ListQuery { filter, limit: Some(1), before: Some(made[3].id), ..ListQuery::thread("t") };
    same("the newest input before the fourth", &list_ids(&saver, query).await?, &vec![made[0].id])
}

async fn threads_with_the_newest_first(saver: Subject) -> CaseResult {
    same("no threads", &saver.admin()?.threads(None).await?, &Vec::new())?;
    claim(&saver, "only claimed").await?;
    let lease = claim(&saver, "old").await?;
    saver.commit(&lease, vec![Branch::root().aged(LONG_AGO).next(&[])].into()).await?;
    let made = five(&saver, "middle").await?;
    let lease = claim(&saver, "new").await?;
    let mut child = Branch::within("child");
    saver.commit(&lease, vec![child.next(&[]), child.next(&[])].into()).await?;
    let found = saver.admin()?.threads(None).await?;
    let brief: Vec<_> = found.iter().map(|it| (&*it.thread, it.checkpoints, it.latest.is_some())).collect();
    same("the threads", &brief, &vec![("new", 2, false), ("middle", 5, true), ("old", 1, true)])?;
    same("the latest of one", &found[1].latest.as_ref(), &made.last())?;
    let two = saver.admin()?.threads(Some(2)).await?;
    same("the newest two", &two.iter().map(|it| &*it.thread).collect(), &vec!["new", "middle"])
}

async fn threads_report_their_holders(saver: Subject) -> CaseResult {
    let lease = saver.acquire("t", Claim { holder: "Ada's run".to_owned(), ..Claim::default() }).await?;
    saver.commit(&lease, vec![Branch::root().next(&[])].into()).await?;
    let holders =
        |found: Vec<hier_core::checkpoint::ThreadInfo>| found.into_iter().map(|it| it.holder).collect::<Vec<_>>();
    same("the holders", &holders(saver.admin()?.threads(None).await?), &vec![Some("Ada's run".to_owned())])?;
    saver.release(&lease).await?;
    same("the holders after the release", &holders(saver.admin()?.threads(None).await?), &vec![None])
}
