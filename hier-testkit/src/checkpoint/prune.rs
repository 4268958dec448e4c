//! Cases about pruning, which deletes old checkpoints.

use std::sync::Arc;

use uuid::Uuid;

use super::kit::ChannelChange::Set;
use super::kit::{Branch, CaseResult, LONG_AGO, cases, claim, deleted, get, has_values, ids, new_id, same, writes};
use super::{ContractViolation, Subject};
use hier_core::checkpoint::{Checkpointer, Prune, SaverError, Strategy, WriteRecord, background};

cases!(super::Case, "prune":
    keeps_the_latest,
    keeps_a_number_of_checkpoints,
    deletes_all,
    keeps_the_latest_of_each_namespace,
    only_these_threads,
    of_no_threads_and_of_unknown_ones,
    only_old_checkpoints_are_pruned,
    background_threads_are_pruned_with_their_thread,
    keeps_the_writes_of_kept_checkpoints,
    removes_links_to_pruned_checkpoints,
    subgraph_calls_are_deleted_with_their_checkpoint,
    keeps_the_subgraph_calls_of_kept_checkpoints,
    keeps_the_lasting_state_that_checkpoints_refer_to,
    a_run_continues_after_a_prune,
    a_run_whose_base_is_gone_is_superseded,
    deletes_unreferenced_values,
);

/// Commits this number of checkpoints to a new thread. Returns the ids of the checkpoints, newest first.
async fn thread_of(saver: &Subject, thread: &str, count: usize) -> Result<Vec<Uuid>, ContractViolation> {
    let lease = claim(saver, thread).await?;
    let mut branch = Branch::root();
    let mut made = Vec::new();
    for _ in 0..count {
        saver.commit(&lease, vec![branch.next(&[Set("x", thread.as_bytes())])].into()).await?;
        made.insert(0, branch.tip()?.id);
    }
    saver.release(&lease).await?;
    Ok(made)
}

fn keep(strategy: Strategy) -> Prune {
    Prune { strategy, ..Prune::default() }
}

async fn keeps_the_latest(saver: Subject) -> CaseResult {
    let first = thread_of(&saver, "t", 4).await?;
    let second = thread_of(&saver, "other", 2).await?;
    same("how many were pruned", &saver.admin()?.prune(Prune::default()).await?, &4)?;
    same("the remaining checkpoints", &ids(&saver, "t", "").await?, &first[..1].to_vec())?;
    same("the remaining checkpoints of the other thread", &ids(&saver, "other", "").await?, &second[..1].to_vec())?;
    has_values("the value", &get(&saver, "t", "", None).await?, &[("x", &[b"t"])])?;
    same("how many were pruned the second time", &saver.admin()?.prune(Prune::default()).await?, &0)
}

async fn keeps_a_number_of_checkpoints(saver: Subject) -> CaseResult {
    let made = thread_of(&saver, "t", 5).await?;
    same("how many were pruned", &saver.admin()?.prune(keep(Strategy::Keep(3))).await?, &2)?;
    same("the remaining checkpoints", &ids(&saver, "t", "").await?, &made[..3].to_vec())?;
    same("how many were pruned", &saver.admin()?.prune(keep(Strategy::Keep(10))).await?, &0)?;
    same("how many were pruned", &saver.admin()?.prune(keep(Strategy::Keep(0))).await?, &3)?;
    same("the remaining checkpoints", &ids(&saver, "t", "").await?, &Vec::new())
}

async fn deletes_all(saver: Subject) -> CaseResult {
    thread_of(&saver, "t", 3).await?;
    same("how many were pruned", &saver.admin()?.prune(keep(Strategy::Delete)).await?, &3)?;
    same("the latest", &saver.get("t", "", None).await?, &None)?;
    same("the threads", &saver.admin()?.threads(None).await?, &Vec::new())?;
    let again = thread_of(&saver, "t", 1).await?;
    same("the checkpoints after a new start", &ids(&saver, "t", "").await?, &again)
}

async fn keeps_the_latest_of_each_namespace(saver: Subject) -> CaseResult {
    let lease = claim(&saver, "t").await?;
    let mut latest = Vec::new();
    for namespace in ["", "a", "a|b", "a:1"] {
        let mut branch = Branch::within(namespace);
        saver.commit(&lease, vec![branch.next(&[Set("x", b"0")]), branch.next(&[Set("y", b"1")])].into()).await?;
        latest.push((namespace, branch.tip()?.id));
    }
    same("how many were pruned", &saver.admin()?.prune(Prune::default()).await?, &4)?;
    for (namespace, id) in latest {
        same("the remaining checkpoints", &ids(&saver, "t", namespace).await?, &vec![id])?;
        let found = get(&saver, "t", namespace, None).await?;
        has_values("the values", &found, &[("x", &[b"0"]), ("y", &[b"1"])])?;
    }
    Ok(())
}

async fn only_these_threads(saver: Subject) -> CaseResult {
    for thread in ["a", "b", "c"] {
        thread_of(&saver, thread, 3).await?;
    }
    let threads = Some(vec!["a".to_owned(), "c".to_owned(), "a".to_owned()]);
    same("how many were pruned", &saver.admin()?.prune(Prune { threads, ..Prune::default() }).await?, &4)?;
    for (thread, left) in [("a", 1), ("b", 3), ("c", 1)] {
        same(thread, &ids(&saver, thread, "").await?.len(), &left)?;
    }
    Ok(())
}

async fn of_no_threads_and_of_unknown_ones(saver: Subject) -> CaseResult {
    thread_of(&saver, "t", 3).await?;
    for threads in [vec![], vec!["unknown".to_owned()], vec!["%".to_owned()]] {
        let prune = Prune { threads: Some(threads), strategy: Strategy::Delete, ..Prune::default() };
        same("how many were pruned", &saver.admin()?.prune(prune).await?, &0)?;
    }
    same("the remaining checkpoints", &ids(&saver, "t", "").await?.len(), &3)
}

async fn only_old_checkpoints_are_pruned(saver: Subject) -> CaseResult {
    let lease = claim(&saver, "t").await?;
    let mut branch = Branch::root().aged(LONG_AGO);
    for _ in 0..3 {
        saver.commit(&lease, vec![branch.next(&[Set("x", b"old")])].into()).await?;
    }
    let mut branch = branch.fork(branch.tip()?).aged(std::time::Duration::ZERO);
    let mut kept = Vec::new();
    for _ in 0..2 {
        saver.commit(&lease, vec![branch.next(&[Set("y", b"new")])].into()).await?;
        kept.insert(0, branch.tip()?.id);
    }
    let old = |strategy| Prune { strategy, older_than: Some(LONG_AGO / 2), ..Prune::default() };
    same("how many were pruned", &saver.admin()?.prune(old(Strategy::Keep(4))).await?, &1)?;
    same("how many were pruned", &saver.admin()?.prune(old(Strategy::Delete)).await?, &2)?;
    same("the remaining checkpoints", &ids(&saver, "t", "").await?, &kept)?;
    let found = get(&saver, "t", "", None).await?;
    has_values("the values", &found, &[("x", &[b"old"]), ("y", &[b"new"])])
}

async fn background_threads_are_pruned_with_their_thread(saver: Subject) -> CaseResult {
    let inner = background::thread_of("t", "a-1");
    let nested = background::thread_of(&inner, "b-1");
    let old = |threads| Prune { threads, strategy: Strategy::Delete, older_than: Some(LONG_AGO / 2) };
    for thread in [&nested, &inner] {
        let (lease, mut branch) = (claim(&saver, thread).await?, Branch::root().aged(LONG_AGO));
        saver.commit(&lease, vec![branch.next(&[]), branch.next(&[]), branch.next(&[])].into()).await?;
        saver.release(&lease).await?;
    }
    thread_of(&saver, "t", 1).await?;
    thread_of(&saver, "t2", 1).await?;
    let named = || Some(vec!["t".to_owned()]);
    let history = Prune { threads: named(), ..keep(Strategy::Keep(2)) };
    same("how many were pruned of the histories", &saver.admin()?.prune(history).await?, &2)?;
    same("how many were pruned while the thread stays", &saver.admin()?.prune(old(None)).await?, &2)?;
    same("how many were pruned after that", &saver.admin()?.prune(old(named())).await?, &0)?;
    for thread in ["t", &inner, &nested] {
        same("the latest", &ids(&saver, thread, "").await?.len(), &1)?;
    }
    let all = Prune { threads: named(), ..keep(Strategy::Delete) };
    same("how many were pruned with the thread", &saver.admin()?.prune(all).await?, &3)?;
    let threads = saver.admin()?.threads(None).await?;
    same("the threads", &threads.iter().map(|it| &*it.thread).collect(), &vec!["t2"])
}

async fn keeps_the_writes_of_kept_checkpoints(saver: Subject) -> CaseResult {
    let lease = claim(&saver, "t").await?;
    let mut branch = Branch::root();
    let mut records = Vec::new();
    for value in [b"old", b"new"] {
        records.push(branch.next(&[]));
        records.push(writes("", branch.tip()?.id, new_id(), "a", &[(0, "x", value)]));
    }
    let first = records[0].clone();
    saver.commit(&lease, records.into()).await?;
    saver.admin()?.prune(Prune::default()).await?;
    let found = get(&saver, "t", "", None).await?;
    same("the writes", &found.writes.first().map(|task| task.writes[0].value.clone()), &Some(b"new".to_vec()))?;
    saver.commit(&lease, vec![first].into()).await?;
    let oldest = ids(&saver, "t", "").await?[1];
    same("the writes of the pruned checkpoint", &get(&saver, "t", "", Some(oldest)).await?.writes, &Vec::new())
}

async fn removes_links_to_pruned_checkpoints(saver: Subject) -> CaseResult {
    let made = thread_of(&saver, "t", 4).await?;
    saver.admin()?.prune(keep(Strategy::Keep(2))).await?;
    for (id, parent) in [(made[0], Some(made[1])), (made[1], None)] {
        same("the parent", &get(&saver, "t", "", Some(id)).await?.checkpoint.parent, &parent)?;
    }
    let listed = saver.list(hier_core::checkpoint::ListQuery::thread("t")).await?;
    same("the last one's parent in the list", &listed.last().and_then(|it| it.checkpoint.parent), &None)
}

async fn subgraph_calls_are_deleted_with_their_checkpoint(saver: Subject) -> CaseResult {
    let lease = claim(&saver, "t").await?;
    let mut root = Branch::root();
    for call in ["a:1", "a:2|b", "c:3|d:4"] {
        saver.commit(&lease, vec![root.next(&[])].into()).await?;
        let mut child = Branch::within(call).called_from(root.tip()?.id);
        saver.commit(&lease, vec![child.next(&[]), child.next(&[])].into()).await?;
    }
    saver.commit(&lease, vec![root.next(&[])].into()).await?;
    same("how many were pruned", &saver.admin()?.prune(keep(Strategy::Keep(2))).await?, &(2 + 4))?;
    for (call, left) in [("a:1", 0), ("a:2|b", 0), ("c:3|d:4", 2)] {
        same(call, &ids(&saver, "t", call).await?.len(), &left)?;
    }
    Ok(())
}

async fn keeps_the_subgraph_calls_of_kept_checkpoints(saver: Subject) -> CaseResult {
    let lease = claim(&saver, "t").await?;
    let mut root = Branch::root();
    saver.commit(&lease, vec![root.next(&[])].into()).await?;
    let mut lasting = Branch::within("a").called_from(root.tip()?.id);
    saver.commit(&lease, vec![lasting.next(&[Set("x", b"lasting")])].into()).await?;
    saver.commit(&lease, vec![root.next(&[])].into()).await?;
    let mut call = Branch::within("a:1").called_from(root.tip()?.id);
    saver.commit(&lease, vec![call.next(&[]), call.next(&[Set("x", b"call")])].into()).await?;
    same("how many were pruned", &saver.admin()?.prune(Prune::default()).await?, &2)?;
    has_values("the call's", &get(&saver, "t", "a:1", None).await?, &[("x", &[b"call"])])?;
    // The lasting state of a subgraph is not pruned with an old checkpoint of the root.
    has_values("the lasting subgraph's", &get(&saver, "t", "a", None).await?, &[("x", &[b"lasting"])])
}

/// The subgraph `desk` and its subgraph `till` keep their state between calls. Another branch has written newer
/// checkpoints to both.
async fn keeps_the_lasting_state_that_checkpoints_refer_to(saver: Subject) -> CaseResult {
    let lease = claim(&saver, "t").await?;
    let (mut outer, mut inner, mut root) = (Branch::within("desk"), Branch::within("desk|till"), Branch::root());
    saver.commit(&lease, vec![inner.next(&[Set("x", b"kept")])].into()).await?;
    let innermost = inner.tip()?.id;
    saver.commit(&lease, vec![keeping(&mut outer, b"kept", ("till", innermost))].into()).await?;
    let middle = outer.tip()?.id;
    saver.commit(&lease, vec![root.next(&[Set("x", b"old")])].into()).await?;
    saver.commit(&lease, vec![keeping(&mut root, b"new", ("desk", middle))].into()).await?;
    let mut called = Branch::within("desk").called_from(root.tip()?.id);
    saver.commit(&lease, vec![called.next(&[Set("x", b"begun")])].into()).await?;
    let begun = called.tip()?.id;
    for _ in 0..2 {
        saver.commit(&lease, vec![outer.next(&[Set("x", b"other")]), inner.next(&[Set("x", b"other")])].into()).await?;
    }
    same("how many were pruned", &saver.admin()?.prune(Prune::default()).await?, &3)?;
    same("the remaining outer checkpoints", &ids(&saver, "t", "desk").await?, &vec![outer.tip()?.id, begun, middle])?;
    same("the remaining inner checkpoints", &ids(&saver, "t", "desk|till").await?, &vec![inner.tip()?.id, innermost])?;
    has_values("the kept values", &get(&saver, "t", "desk|till", Some(innermost)).await?, &[("x", &[b"kept"])])
}

/// Creates the next checkpoint of a branch. It refers to the checkpoint `kept` of a subgraph.
fn keeping(branch: &mut Branch, x: &[u8], (level, kept): (&str, Uuid)) -> WriteRecord {
    let (mut checkpoint, pieces) = branch.next_checkpoint(&[Set("x", x)]);
    checkpoint.agenda.kept = Some(Arc::new([(level.into(), kept)].into()));
    branch.record(checkpoint, pieces)
}

async fn a_run_continues_after_a_prune(saver: Subject) -> CaseResult {
    let lease = claim(&saver, "t").await?;
    let mut branch = Branch::root();
    saver.commit(&lease, vec![branch.next(&[Set("x", b"0")])].into()).await?;
    for _ in 0..3 {
        saver.commit(&lease, vec![branch.next(&[])].into()).await?;
        saver.admin()?.prune(Prune::default()).await?;
    }
    has_values("the value", &get(&saver, "t", "", None).await?, &[("x", &[b"0"])])
}

async fn a_run_whose_base_is_gone_is_superseded(saver: Subject) -> CaseResult {
    let lease = claim(&saver, "t").await?;
    let mut branch = Branch::root();
    saver.commit(&lease, vec![branch.next(&[Set("x", b"0")])].into()).await?;
    saver.admin()?.prune(keep(Strategy::Delete)).await?;
    deleted("the next commit of the run", &saver.commit(&lease, vec![branch.next(&[])].into()).await)?;
    same("the latest", &saver.get("t", "", None).await?, &None)
}

/// New checkpoints that refer to both values show which value was deleted: the saver refuses the checkpoint with the
/// deleted value, and accepts the checkpoint with the other value.
async fn deletes_unreferenced_values(saver: Subject) -> CaseResult {
    let lease = claim(&saver, "t").await?;
    let mut branch = Branch::root();
    let (mut checkpoint, pieces) = branch.next_checkpoint(&[Set("x", b"old"), Set("y", b"kept")]);
    let first = branch.record(checkpoint.clone(), pieces);
    saver.commit(&lease, vec![first, branch.next(&[Set("x", b"new")])].into()).await?;
    saver.admin()?.prune(Prune::default()).await?;
    let id = checkpoint.id;
    match saver.commit(&lease, vec![branch.record(checkpoint.clone(), Vec::new())].into()).await {
        Err(SaverError::Gone { channel, version, .. }) => {
            same("the missing data", &(channel.as_str(), version), &("x", id))?;
        }
        other => {
            return Err(ContractViolation(format!("a checkpoint whose value is gone: {other:?} instead of `Gone`")));
        }
    }
    checkpoint.versions = [Uuid::nil(), id].into();
    saver.commit(&lease, vec![branch.record(checkpoint, Vec::new())].into()).await?;
    has_values("what another needs", &get(&saver, "t", "", Some(id)).await?, &[("y", &[b"kept"])])
}
