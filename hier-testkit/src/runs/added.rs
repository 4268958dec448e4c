//! Cases about runs that a caller adds and claims in one call.

use std::collections::HashSet;

use hier_core::checkpoint::{Checkpointer, Claim, WhenRunning};
use hier_core::runs::{
    Claimed, Document, NewRun, NewThread, Request, Run, RunClaim, RunCommit, RunEnd, RunStatus, RunsError, ThreadStatus,
};
use serde_json::json;

use super::kit::{
    CaseResult, LONG, add, cases, checkpoint, claim, claim_for, end_run, has_status, holds, is, load_run, modes, new,
    same,
};
use super::{ContractViolation, Subject};

cases!(super::Case, "added":
    a_new_run_is_claimed_at_once_or_waits,
    a_blocked_run_is_not_claimed_when_added,
    nothing_is_claimed_with_a_run_that_is_refused,
);

async fn add_claimed(store: &Subject, run: NewRun, graph: &str) -> Result<(Run, Option<Claimed>), ContractViolation> {
    let added = store.create_claimed(run, RunClaim::new("the suite", LONG, [graph])).await?;
    Ok((added.run, added.claimed))
}

/// A store may claim a new run at once or leave it pending. Each run is executed once, and in order.
async fn a_new_run_is_claimed_at_once_or_waits(store: Subject) -> CaseResult {
    for _ in 0..3 {
        let (added, claimed) = add_claimed(&store, new("t"), "desk").await?;
        same("the run is returned as it was added", &(added.status, added.attempts), &(RunStatus::Pending, 0))?;
        let claimed = match claimed {
            Some(claimed) => claimed,
            None => claim(&store).await?,
        };
        same("the run", &(claimed.run.id, claimed.run.status), &(added.id, RunStatus::Running))?;
        same("as it is stored", &load_run(&store, added.id).await?, &claimed.run)?;
        is(&store, "t", ThreadStatus::Busy).await?;
        same("another worker meanwhile", &claim_for(&store, LONG).await?, &None)?;
        let (next, none) = add_claimed(&store, new("t"), "desk").await?;
        same("one behind it", &none, &None)?;
        let checkpoint = checkpoint(added.id, 1);
        let end = RunEnd::new(added.id, RunStatus::Success);
        store.commit_run(&claimed.lease, RunCommit::records(vec![checkpoint]).end(end)).await?;
        let behind = claim(&store).await?;
        same("the next", &(behind.run.id, behind.run.attempts), &(next.id, 1))?;
        end_run(&store, &behind).await?;
        is(&store, "t", ThreadStatus::Idle).await?;
    }
    let expected = ["start", "end"].repeat(6);
    same("the events", &modes(&store, "t").await?, &expected.into_iter().map(str::to_owned).collect())
}

async fn a_blocked_run_is_not_claimed_when_added(store: Subject) -> CaseResult {
    let first = add(&store, "t").await?;
    let (second, claimed) = add_claimed(&store, new("t"), "desk").await?;
    same("one behind a run that waits", &claimed, &None)?;
    let mut later = new("later");
    later.after = LONG;
    same("one that is delayed", &add_claimed(&store, later, "desk").await?.1, &None)?;
    same("one of another graph", &add_claimed(&store, new("other"), "another").await?.1, &None)?;
    let lease = store.acquire("held", Claim { when_running: WhenRunning::Reject, ..Claim::default() }).await?;
    store.create_thread(NewThread::new("held")).await?;
    let (held, claimed) = add_claimed(&store, new("held"), "desk").await?;
    same("one of a thread that another caller holds", &claimed, &None)?;
    has_status(&store, held.id, RunStatus::Pending).await?;
    let mut order = Vec::new();
    while let Some(claimed) = claim_for(&store, LONG).await? {
        order.push(claimed.run.id);
        end_run(&store, &claimed).await?;
        if order.len() == 3 {
            store.release(&lease).await?;
        }
    }
    let place = |run: &Run| order.iter().position(|id| *id == run.id);
    holds("the first two are in order", place(&first) < place(&second))?;
    same("how many were claimed", &order.iter().collect::<HashSet<_>>().len(), &4)?;
    holds("also the one whose thread was held", order.contains(&held.id))
}

async fn nothing_is_claimed_with_a_run_that_is_refused(store: Subject) -> CaseResult {
    let made = add(&store, "t").await?;
    let claimed = claim(&store).await?;
    end_run(&store, &claimed).await?;
    let mut again = new("t");
    again.id = Some(made.id);
    let refused = store.create_claimed(again, RunClaim::new("the suite", LONG, ["desk"])).await;
    holds("one that is there", matches!(refused, Err(RunsError::Exists { .. })))?;
    let nowhere = NewRun::new("nowhere", "desk", Request::default());
    let refused = store.create_claimed(nowhere, RunClaim::new("the suite", LONG, ["desk"])).await;
    holds("one without a thread", matches!(refused, Err(RunsError::NoThread { .. })))?;
    let mut stale = new("t");
    stale.document = Some(Document::new("cron", "c", json!({})).revision(7));
    let refused = store.create_claimed(stale, RunClaim::new("the suite", LONG, ["desk"])).await;
    holds("one whose document was changed", matches!(refused, Err(RunsError::Stale { .. })))?;
    is(&store, "t", ThreadStatus::Idle).await?;
    same("nothing waits", &claim_for(&store, LONG).await?, &None)?;
    // The refused runs have not claimed the thread.
    let lease = store.acquire("t", Claim { when_running: WhenRunning::Reject, ..Claim::default() }).await?;
    store.release(&lease).await?;
    Ok(())
}
