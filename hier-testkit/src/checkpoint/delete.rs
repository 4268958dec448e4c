use uuid::Uuid;

use super::Subject;
use super::kit::ChannelChange::Set;
use super::kit::{Branch, CaseResult, cases, claim, deleted, get, has_values, holds, ids, new_id, same, writes};
use hier_core::checkpoint::{Checkpointer, ListQuery, SaverError, WriteRecord, background};

cases!(super::Case, "delete":
    deleting_a_thread_deletes_its_data,
    other_threads_are_kept,
    deleting_an_unknown_thread_succeeds,
    a_thread_can_start_again,
    deleting_supersedes_the_active_run,
    background_threads_are_deleted_with_their_thread,
    deletes_the_checkpoints_of_a_run,
    deletes_the_checkpoints_of_several_runs,
    deletes_runs_in_all_threads_and_namespaces,
    unknown_runs_delete_nothing,
    deletes_the_writes_of_a_run,
    subgraph_calls_are_deleted_with_their_checkpoint,
    a_run_whose_base_is_deleted_is_superseded,
);

fn runs(runs: &[&str]) -> Vec<String> {
    runs.iter().map(|run| (*run).to_owned()).collect()
}

async fn deleting_a_thread_deletes_its_data(saver: Subject) -> CaseResult {
    let lease = claim(&saver, "t").await?;
    let (mut root, mut child) = (Branch::root(), Branch::within("child"));
    let mut records = vec![root.next(&[Set("x", b"0")]), child.next(&[Set("x", b"0")]), root.next(&[])];
    records.push(writes("", root.tip()?.id, new_id(), "a", &[(0, "x", b"v")]));
    saver.commit(&lease, records.into()).await?;
    saver.delete_thread("t").await?;
    let all = ListQuery { namespace: None, ..ListQuery::thread("t") };
    same("the list", &saver.list(all).await?, &Vec::new())?;
    same("the threads", &saver.admin()?.threads(None).await?, &Vec::new())?;
    for namespace in ["", "child"] {
        same("the latest", &saver.get("t", namespace, None).await?, &None)?;
    }
    // If the same checkpoint is stored again, it must not get the deleted values and writes back.
    let lease = claim(&saver, "t").await?;
    root.tip.as_mut().map(|tip| tip.parent.take());
    let mut checkpoint = Box::new(root.tip()?.clone());
    let record = |checkpoint| WriteRecord::Checkpoint { namespace: "".into(), checkpoint, pieces: Vec::new() };
    let refused = saver.commit(&lease, vec![record(checkpoint.clone())].into()).await;
    holds("the old value is gone", matches!(refused, Err(SaverError::Gone { .. })))?;
    checkpoint.versions = [Uuid::nil()].into();
    saver.commit(&lease, vec![record(checkpoint)].into()).await?;
    let found = get(&saver, "t", "", None).await?;
    holds("there are no old writes", found.writes.is_empty())?;
    holds("there is no old value", found.values.is_empty())
}

async fn other_threads_are_kept(saver: Subject) -> CaseResult {
    for thread in ["t", "t2", "T"] {
        let lease = claim(&saver, thread).await?;
        saver.commit(&lease, vec![Branch::root().next(&[Set("x", thread.as_bytes())])].into()).await?;
    }
    saver.delete_thread("t").await?;
    for thread in ["t2", "T"] {
        has_values("the value", &get(&saver, thread, "", None).await?, &[("x", &[thread.as_bytes()])])?;
    }
    same("how many threads are left", &saver.admin()?.threads(None).await?.len(), &2)
}

async fn deleting_an_unknown_thread_succeeds(saver: Subject) -> CaseResult {
    saver.delete_thread("unknown").await?;
    claim(&saver, "t").await?;
    saver.delete_thread("t").await?;
    saver.delete_thread("t").await?;
    Ok(())
}

async fn a_thread_can_start_again(saver: Subject) -> CaseResult {
    for value in [b"1", b"2", b"3"] {
        let lease = claim(&saver, "t").await?;
        saver.commit(&lease, vec![Branch::root().next(&[Set("x", value)])].into()).await?;
        same("the number of checkpoints", &ids(&saver, "t", "").await?.len(), &1)?;
        has_values("the value", &get(&saver, "t", "", None).await?, &[("x", &[value])])?;
        saver.delete_thread("t").await?;
    }
    Ok(())
}

async fn deleting_supersedes_the_active_run(saver: Subject) -> CaseResult {
    let lease = claim(&saver, "t").await?;
    let mut branch = Branch::root();
    saver.commit(&lease, vec![branch.next(&[Set("x", b"0")])].into()).await?;
    saver.delete_thread("t").await?;
    // The next checkpoint would refer to deleted values.
    deleted("its next commit", &saver.commit(&lease, vec![branch.next(&[])].into()).await)?;
    deleted("renewing its lease", &saver.renew(&lease).await)?;
    saver.release(&lease).await?;
    same("the latest", &saver.get("t", "", None).await?, &None)
}

async fn background_threads_are_deleted_with_their_thread(saver: Subject) -> CaseResult {
    // The name ends with a character that a database may escape.
    let inner = background::thread_of("t\u{1}", "a-1");
    let nested = background::thread_of(&inner, "b-1");
    let other = background::thread_of("t\u{1}2", "a-1");
    let kept = ["t", "t/background/a-1", "t\u{1}/background", "t\u{1}/background0", &other];
    let mut running = Vec::new();
    for thread in kept.into_iter().chain(["t\u{1}", &inner, &nested]) {
        let (lease, mut branch) = (claim(&saver, thread).await?, Branch::root());
        saver.commit(&lease, vec![branch.next(&[Set("x", thread.as_bytes())])].into()).await?;
        running.push((lease, branch));
    }
    saver.delete_thread("t\u{1}").await?;
    for (lease, mut branch) in running.split_off(kept.len()) {
        deleted("the next commit", &saver.commit(&lease, vec![branch.next(&[])].into()).await)?;
        same("the latest", &saver.get(&lease.thread, "", None).await?, &None)?;
    }
    for thread in kept {
        has_values("the value", &get(&saver, thread, "", None).await?, &[("x", &[thread.as_bytes()])])?;
    }
    saver.delete_thread("unknown").await?;
    same("how many threads are left", &saver.admin()?.threads(None).await?.len(), &kept.len())
}

async fn deletes_the_checkpoints_of_a_run(saver: Subject) -> CaseResult {
    let lease = claim(&saver, "t").await?;
    let mut branch = Branch::root().of_run("one");
    saver.commit(&lease, vec![branch.next(&[Set("x", b"1")]), branch.next(&[Set("y", b"1")])].into()).await?;
    let mut branch = branch.of_run("two");
    saver.commit(&lease, vec![branch.next(&[Set("x", b"2")])].into()).await?;
    let kept = branch.tip()?.id;
    saver.admin()?.delete_for_runs(&runs(&["one"])).await?;
    same("the checkpoints", &ids(&saver, "t", "").await?, &vec![kept])?;
    let found = get(&saver, "t", "", Some(kept)).await?;
    has_values("the values", &found, &[("x", &[b"2"]), ("y", &[b"1"])])?;
    same("the link to its parent, which is gone", &found.checkpoint.parent, &None)
}

async fn deletes_the_checkpoints_of_several_runs(saver: Subject) -> CaseResult {
    let lease = claim(&saver, "t").await?;
    let mut branch = Branch::root();
    let mut kept = Vec::new();
    for run in ["one", "two", "three", "four"] {
        branch = branch.of_run(run);
        saver.commit(&lease, vec![branch.next(&[Set("x", run.as_bytes())])].into()).await?;
        if ["two", "four"].contains(&run) {
            kept.insert(0, branch.tip()?.id);
        }
    }
    saver.admin()?.delete_for_runs(&runs(&["one", "three", "none"])).await?;
    same("the checkpoints", &ids(&saver, "t", "").await?, &kept)
}

async fn deletes_runs_in_all_threads_and_namespaces(saver: Subject) -> CaseResult {
    for thread in ["t", "other"] {
        let lease = claim(&saver, thread).await?;
        for namespace in ["", "child"] {
            for run in ["one", "two"] {
                let mut branch = Branch::within(namespace).of_run(run);
                saver.commit(&lease, vec![branch.next(&[Set("x", run.as_bytes())])].into()).await?;
            }
        }
    }
    saver.admin()?.delete_for_runs(&runs(&["one"])).await?;
    for thread in ["t", "other"] {
        for namespace in ["", "child"] {
            same("how many are left", &ids(&saver, thread, namespace).await?.len(), &1)?;
            has_values("the value", &get(&saver, thread, namespace, None).await?, &[("x", &[b"two"])])?;
        }
    }
    Ok(())
}

async fn unknown_runs_delete_nothing(saver: Subject) -> CaseResult {
    let lease = claim(&saver, "t").await?;
    let mut branch = Branch::root();
    saver.commit(&lease, vec![branch.next(&[])].into()).await?;
    branch = branch.of_run("one");
    saver.commit(&lease, vec![branch.next(&[])].into()).await?;
    saver.admin()?.delete_for_runs(&[]).await?;
    saver.admin()?.delete_for_runs(&runs(&["unknown", "", "null", "On", "%"])).await?;
    same("the number of checkpoints", &ids(&saver, "t", "").await?.len(), &2)?;
    // The lease is still valid.
    saver.commit(&lease, vec![branch.next(&[])].into()).await?;
    Ok(())
}

async fn deletes_the_writes_of_a_run(saver: Subject) -> CaseResult {
    let lease = claim(&saver, "t").await?;
    let mut branch = Branch::root().of_run("one");
    let record = branch.next(&[]);
    let id = branch.tip()?.id;
    let of_task = writes("", id, new_id(), "a", &[(0, "x", b"v")]);
    saver.commit(&lease, vec![record.clone(), of_task].into()).await?;
    saver.admin()?.delete_for_runs(&runs(&["one"])).await?;
    let lease = claim(&saver, "t").await?;
    saver.commit(&lease, vec![record].into()).await?;
    holds("the same checkpoint has no writes", get(&saver, "t", "", Some(id)).await?.writes.is_empty())
}

async fn subgraph_calls_are_deleted_with_their_checkpoint(saver: Subject) -> CaseResult {
    let lease = claim(&saver, "t").await?;
    let mut root = Branch::root().of_run("one");
    saver.commit(&lease, vec![root.next(&[])].into()).await?;
    let from = root.tip()?.id;
    // The subgraphs' checkpoints carry no run id. They refer to a checkpoint of the run `one`.
    let (mut call, mut lasting) = (Branch::within("a:1").called_from(from), Branch::within("a").called_from(from));
    saver.commit(&lease, vec![call.next(&[]), lasting.next(&[Set("x", b"kept")])].into()).await?;
    let mut root = root.of_run("two");
    saver.commit(&lease, vec![root.next(&[])].into()).await?;
    saver.admin()?.delete_for_runs(&runs(&["one"])).await?;
    same("the call's checkpoints", &ids(&saver, "t", "a:1").await?, &Vec::new())?;
    has_values("the lasting subgraph's", &get(&saver, "t", "a", None).await?, &[("x", &[b"kept"])])
}

async fn a_run_whose_base_is_deleted_is_superseded(saver: Subject) -> CaseResult {
    let lease = claim(&saver, "t").await?;
    let mut branch = Branch::root().of_run("one");
    saver.commit(&lease, vec![branch.next(&[Set("x", b"0")])].into()).await?;
    saver.admin()?.delete_for_runs(&runs(&["one"])).await?;
    deleted("the next commit of the run", &saver.commit(&lease, vec![branch.next(&[])].into()).await)?;
    same("the latest", &saver.get("t", "", None).await?, &None)
}
