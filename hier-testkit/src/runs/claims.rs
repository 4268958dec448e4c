use std::collections::HashSet;
use std::time::Duration;

use futures_util::future::try_join_all;
use hier_core::checkpoint::{Checkpointer, Claim, WhenRunning};
use hier_core::runs::{Cancel, RunClaim, RunCommit, RunEnd, RunStatus, ThreadStatus};
use tokio::time::sleep;

use super::Subject;
use super::kit::{
    CaseResult, LONG, SHORT, add, cases, checkpoint, claim, claim_for, claim_when_due, end_run, has_status, holds, is,
    load_run, new, same, some, superseded,
};

cases!(super::Case, "claims":
    a_thread_has_one_run_at_a_time_in_order,
    threads_take_turns,
    a_run_is_claimed_once,
    several_runs_of_different_threads_are_claimed_at_once,
    only_by_workers_that_have_its_graph,
    a_delayed_run_begins_no_earlier,
    a_delayed_run_is_not_started_by_a_dead_workers_recovery,
    a_dead_workers_run_continues_elsewhere,
    a_dead_workers_run_is_found_by_each_worker,
    a_worker_that_renews_keeps_its_run,
    a_stale_worker_is_refused,
    a_name_proves_nothing,
    cancelling_a_dead_workers_run_does_not_disarm_recovery,
    a_requeued_run_is_next_again,
    a_thread_leased_elsewhere_is_not_claimed,
    a_deleted_thread_refuses_its_worker,
    the_end_is_stored_with_the_last_checkpoint_or_not_at_all,
);

/// A time that is long enough for a slow machine to read the store.
const WHILE: Duration = Duration::from_secs(4);

async fn a_thread_has_one_run_at_a_time_in_order(store: Subject) -> CaseResult {
    let mut made = Vec::new();
    for _ in 0..4 {
        made.push(add(&store, "t").await?.id);
    }
    for id in made {
        let claimed = claim(&store).await?;
        same("the run", &claimed.run.id, &id)?;
        same("its attempt", &claimed.run.attempts, &1)?;
        has_status(&store, id, RunStatus::Running).await?;
        same("another meanwhile", &claim_for(&store, LONG).await?, &None)?;
        end_run(&store, &claimed).await?;
    }
    same("one more", &claim_for(&store, LONG).await?, &None)
}

async fn threads_take_turns(store: Subject) -> CaseResult {
    for _ in 0..3 {
        add(&store, "many").await?;
        sleep(Duration::from_millis(3)).await;
    }
    add(&store, "one").await?;
    let mut order = Vec::new();
    for _ in 0..4 {
        sleep(Duration::from_millis(3)).await;
        let claimed = claim(&store).await?;
        end_run(&store, &claimed).await?;
        order.push(claimed.run.thread);
    }
    same("the order", &order, &["many", "one", "many", "many"].map(str::to_owned).to_vec())
}

async fn a_run_is_claimed_once(store: Subject) -> CaseResult {
    for number in 0..10 {
        add(&store, &format!("t{}", number % 5)).await?;
    }
    let claims = try_join_all((0..20).map(|_| claim_for(&store, LONG))).await?;
    let claimed: Vec<_> = claims.into_iter().flatten().map(|claimed| claimed.run.thread).collect();
    same("how many were claimed", &claimed.len(), &5)?;
    same("of how many threads", &claimed.into_iter().collect::<HashSet<_>>().len(), &5)
}

async fn several_runs_of_different_threads_are_claimed_at_once(store: Subject) -> CaseResult {
    let claims = || RunClaim::new("the suite", LONG, ["desk"]);
    same("of an empty store", &store.claim_runs(claims(), 3).await?, &vec![])?;
    let mut made = Vec::new();
    for number in 0..5 {
        made.push(add(&store, &format!("t{number}")).await?.id);
        sleep(Duration::from_millis(3)).await;
    }
    // A second run of the same thread waits.
    add(&store, "t0").await?;
    same("none if none is wanted", &store.claim_runs(claims(), 0).await?, &vec![])?;
    let mut claimed = Vec::new();
    loop {
        let some = store.claim_runs(claims(), 3).await?;
        holds("no more than are wanted", some.len() <= 3)?;
        if some.is_empty() {
            break;
        }
        claimed.extend(some);
    }
    same("those that have waited longest", &claimed.iter().map(|claimed| claimed.run.id).collect(), &made)?;
    for claimed in &claimed {
        end_run(&store, claimed).await?;
    }
    let next = store.claim_runs(claims(), 3).await?;
    same("the next of the first thread", &next.iter().map(|claimed| &*claimed.run.thread).collect(), &vec!["t0"])
}

async fn only_by_workers_that_have_its_graph(store: Subject) -> CaseResult {
    let desk = add(&store, "t").await?;
    let mut other = new("u");
    "shop".clone_into(&mut other.graph);
    store.create_run(other).await?;
    let none = store.claim_run(RunClaim::new("the suite", LONG, ["bank"])).await?;
    same("a run of no graph of mine", &none, &None)?;
    same("a run of mine", &claim(&store).await?.run.id, &desk.id)?;
    same("another of mine", &claim_for(&store, LONG).await?, &None)
}

async fn a_delayed_run_begins_no_earlier(store: Subject) -> CaseResult {
    let mut later = new("t");
    later.after = WHILE;
    let later = store.create_run(later).await?;
    is(&store, "t", ThreadStatus::Busy).await?;
    same("before its time", &claim_for(&store, LONG).await?, &None)?;
    // A run without delay does not wait for the delayed one.
    let now = add(&store, "t").await?;
    let first = claim(&store).await?;
    same("the one that is due", &first.run.id, &now.id)?;
    end_run(&store, &first).await?;
    same("still before its time", &claim_for(&store, LONG).await?, &None)?;
    same("at its time", &claim_when_due(&store).await?.run.id, &later.id)
}

/// Aegra 580: the recovery of dead workers' runs started a delayed run early.
async fn a_delayed_run_is_not_started_by_a_dead_workers_recovery(store: Subject) -> CaseResult {
    let dead = add(&store, "t").await?;
    let mut later = new("t");
    later.after = Duration::from_mins(10);
    let later = store.create_run(later).await?;
    some("the run", claim_for(&store, SHORT).await?)?;
    sleep(SHORT * 2).await;
    let again = claim(&store).await?;
    same("the recovered run", &again.run.id, &dead.id)?;
    end_run(&store, &again).await?;
    same("before its time", &claim_for(&store, LONG).await?, &None)?;
    has_status(&store, later.id, RunStatus::Pending).await
}

async fn a_dead_workers_run_continues_elsewhere(store: Subject) -> CaseResult {
    let made = add(&store, "t").await?;
    add(&store, "t").await?;
    let dead = some("the run", claim_for(&store, WHILE).await?)?;
    same("while the lease runs", &claim_for(&store, LONG).await?, &None)?;
    let again = claim_when_due(&store).await?;
    same("the run", &again.run.id, &made.id)?;
    same("its attempt", &again.run.attempts, &2)?;
    holds("the token is greater", again.lease.token > dead.lease.token)
}

/// A store may limit how often it looks for the runs of dead workers. The limit must count for each worker separately.
async fn a_dead_workers_run_is_found_by_each_worker(store: Subject) -> CaseResult {
    let made = add(&store, "t").await?;
    some("the run", claim_for(&store, SHORT).await?)?;
    sleep(SHORT * 2).await;
    let other = store.claim_run(RunClaim::new("the suite", LONG, ["bank"])).await?;
    same("the claim of a worker without its graph", &other, &None)?;
    same("the claim of a worker with its graph", &claim(&store).await?.run.id, &made.id)
}

async fn a_worker_that_renews_keeps_its_run(store: Subject) -> CaseResult {
    add(&store, "t").await?;
    let claimed = some("the run", claim_for(&store, WHILE).await?)?;
    // The loop takes longer than the lease.
    for _ in 0..6 {
        sleep(WHILE / 5).await;
        store.renew(&claimed.lease).await?;
        same("another claim", &claim_for(&store, LONG).await?, &None)?;
    }
    end_run(&store, &claimed).await
}

/// Aegra 547: a stale worker continued, and overwrote the result of its successor.
async fn a_stale_worker_is_refused(store: Subject) -> CaseResult {
    let made = add(&store, "t").await?;
    let dead = some("the run", claim_for(&store, SHORT).await?)?;
    sleep(SHORT * 2).await;
    let again = claim(&store).await?;
    let stale = RunCommit::records(vec![checkpoint(made.id, 0)]);
    superseded("a checkpoint", &store.commit_run(&dead.lease, stale).await)?;
    let failed = RunEnd::failed(made.id, hier_core::runs::Failure::new("Stale", "stale"));
    superseded("an end", &store.commit_run(&dead.lease, RunCommit::default().end(failed)).await)?;
    superseded("handing back", &store.requeue(&dead.lease, made.id).await)?;
    holds("renewing is refused", store.renew(&dead.lease).await.is_err())?;
    store.release(&dead.lease).await?;
    same("a third claim", &claim_for(&store, LONG).await?, &None)?;
    end_run(&store, &again).await?;
    superseded("a commit after the end", &store.commit_run(&again.lease, RunCommit::default()).await)?;
    let end = RunCommit::default().end(RunEnd::new(made.id, RunStatus::Success));
    superseded("an end after the end", &store.commit_run(&dead.lease, end).await)?;
    let ended = load_run(&store, made.id).await?;
    same("the run", &(ended.status, ended.error), &(RunStatus::Success, None))?;
    same("its checkpoints", &store.get("t", "", None).await?, &None)
}

/// If a worker claims its own run again, the first claim is superseded, although both claims have the same name.
async fn a_name_proves_nothing(store: Subject) -> CaseResult {
    let made = add(&store, "t").await?;
    let first = some("the run", claim_for(&store, SHORT).await?)?;
    sleep(SHORT * 2).await;
    let second = claim(&store).await?;
    same("the run", &second.run.id, &made.id)?;
    superseded("the first claim", &store.commit_run(&first.lease, RunCommit::default()).await)?;
    end_run(&store, &second).await
}

/// Aegra 475: cancelling the run of a dead worker prevented its recovery.
async fn cancelling_a_dead_workers_run_does_not_disarm_recovery(store: Subject) -> CaseResult {
    let made = add(&store, "t").await?;
    some("the run", claim_for(&store, SHORT).await?)?;
    store.cancel_runs("t", &[made.id], Cancel::Interrupt).await?;
    has_status(&store, made.id, RunStatus::Running).await?;
    sleep(SHORT * 2).await;
    let again = claim(&store).await?;
    same("the run", &(again.run.id, again.run.cancel), &(made.id, Some(Cancel::Interrupt)))?;
    let end = RunEnd::new(made.id, RunStatus::Interrupted);
    store.commit_run(&again.lease, RunCommit::default().end(end)).await?;
    is(&store, "t", ThreadStatus::Idle).await
}

async fn a_requeued_run_is_next_again(store: Subject) -> CaseResult {
    let made = add(&store, "t").await?;
    add(&store, "t").await?;
    let claimed = claim(&store).await?;
    store.requeue(&claimed.lease, made.id).await?;
    has_status(&store, made.id, RunStatus::Pending).await?;
    is(&store, "t", ThreadStatus::Busy).await?;
    let again = claim(&store).await?;
    same("the run, and its attempt", &(again.run.id, again.run.attempts), &(made.id, 1))
}

async fn a_thread_leased_elsewhere_is_not_claimed(store: Subject) -> CaseResult {
    let made = add(&store, "t").await?;
    let lease = store.acquire("t", Claim::default()).await?;
    same("while it is held", &claim_for(&store, LONG).await?, &None)?;
    store.release(&lease).await?;
    same("afterwards", &claim(&store).await?.run.id, &made.id)?;
    let refused = Claim { when_running: WhenRunning::Reject, ..Claim::default() };
    holds("a run holds its thread", store.acquire("t", refused).await.is_err())
}

async fn a_deleted_thread_refuses_its_worker(store: Subject) -> CaseResult {
    let made = add(&store, "t").await?;
    let claimed = claim(&store).await?;
    same("whether there was one", &store.remove_thread("t").await?, &true)?;
    let late = store.commit_run(&claimed.lease, RunCommit::records(vec![checkpoint(made.id, 0)])).await;
    holds("what comes later is refused", late.is_err())?;
    same("the run", &store.run(made.id).await?, &None)?;
    same("the thread", &store.thread("t").await?, &None)?;
    same("its checkpoint", &store.get("t", "", None).await?, &None)?;
    add(&store, "t").await?;
    claim(&store).await.map(|_| ())
}

async fn the_end_is_stored_with_the_last_checkpoint_or_not_at_all(store: Subject) -> CaseResult {
    let made = add(&store, "t").await?;
    let claimed = claim(&store).await?;
    let mut record = checkpoint(made.id, 0);
    if let hier_core::checkpoint::WriteRecord::Checkpoint { checkpoint, .. } = &mut record {
        // A version without a channel, which every store refuses.
        checkpoint.versions = [uuid::Uuid::nil()].into_iter().collect();
    }
    let settlement = RunCommit::records(vec![record]).end(RunEnd::new(made.id, RunStatus::Success));
    holds("it is refused", store.commit_run(&claimed.lease, settlement).await.is_err())?;
    has_status(&store, made.id, RunStatus::Running).await?;
    is(&store, "t", ThreadStatus::Busy).await?;
    let settlement = RunCommit::records(vec![checkpoint(made.id, 0)]);
    store.commit_run(&claimed.lease, settlement.end(RunEnd::new(made.id, RunStatus::Success))).await?;
    holds("the checkpoint is there", store.get("t", "", None).await?.is_some())?;
    is(&store, "t", ThreadStatus::Idle).await
}
