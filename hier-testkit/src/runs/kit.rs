use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use hier_core::checkpoint::{Checkpoint, SaverError, Source, WriteRecord};
use hier_core::runs::{
    Claimed, EventQuery, EventRow, MultitaskStrategy, NewRun, Request, Run, RunClaim, RunCommit, RunEnd, RunStatus,
    RunsError, ThreadRow, ThreadStatus,
};
use serde_json::{Value, json};
use uuid::Uuid;

use super::{ContractViolation, Subject};
pub(super) use crate::contract::{CaseResult, cases, holds, same, some};

/// A lease that does not expire during a case.
pub(super) const LONG: Duration = Duration::from_mins(10);
/// A lease that expires during a case. Nothing renews it.
pub(super) const SHORT: Duration = Duration::from_millis(150);
/// The lease of a worker that a case kills. The worker must be able to renew it on a busy machine, and the case waits
/// until it expires.
pub(super) const KILLED: Duration = Duration::from_secs(2);

/// Creates a run of the graph `desk` on a thread, which is created if necessary.
pub(super) fn new(thread: &str) -> NewRun {
    NewRun::new(thread, "desk", Request::input(json!({ "log": ["in"] }))).create_thread()
}

pub(super) fn strategy(thread: &str, strategy: MultitaskStrategy) -> NewRun {
    let mut run = new(thread);
    run.multitask_strategy = strategy;
    run
}

pub(super) async fn add(store: &Subject, thread: &str) -> Result<Run, ContractViolation> {
    Ok(store.create_run(new(thread)).await?)
}

pub(super) async fn claim_for(store: &Subject, lasts: Duration) -> Result<Option<Claimed>, ContractViolation> {
    Ok(store.claim_run(RunClaim::new("the suite", lasts, ["desk"])).await?)
}

pub(super) async fn claim(store: &Subject) -> Result<Claimed, ContractViolation> {
    some("a run to claim", claim_for(store, LONG).await?)
}

/// Ends a run successfully, without a checkpoint and without values for the index of threads.
pub(super) async fn end_run(store: &Subject, claimed: &Claimed) -> CaseResult {
    let end = RunEnd::new(claimed.run.id, RunStatus::Success);
    store.commit_run(&claimed.lease, RunCommit::default().end(end)).await?;
    Ok(())
}

pub(super) async fn load_run(store: &Subject, id: Uuid) -> Result<Run, ContractViolation> {
    some("the run", store.run(id).await?)
}

pub(super) async fn thread(store: &Subject, id: &str) -> Result<ThreadRow, ContractViolation> {
    some("the thread", store.thread(id).await?)
}

pub(super) async fn has_status(store: &Subject, id: Uuid, status: RunStatus) -> CaseResult {
    same("the status of the run", &load_run(store, id).await?.status, &status)
}

pub(super) async fn is(store: &Subject, id: &str, status: ThreadStatus) -> CaseResult {
    same("the status of the thread", &thread(store, id).await?.status, &status)
}

pub(super) async fn events(store: &Subject, thread: &str, after: u64) -> Result<Vec<EventRow>, ContractViolation> {
    Ok(store.events(EventQuery::after(thread, after)).await?.events)
}

/// Returns the modes of a thread's events, in order.
pub(super) async fn modes(store: &Subject, thread: &str) -> Result<Vec<String>, ContractViolation> {
    Ok(events(store, thread, 0).await?.into_iter().map(|row| row.event.mode().to_owned()).collect())
}

pub(super) fn checkpoint(run: Uuid, step: i64) -> WriteRecord {
    let mut checkpoint = Checkpoint::new(Uuid::now_v6(&[1, 2, 3, 4, 5, 6]), step, Source::Loop, Arc::from([]));
    let metadata = json!({ "run_id": run.to_string() });
    if let Value::Object(metadata) = metadata {
        checkpoint.metadata = Arc::new(metadata);
    }
    WriteRecord::Checkpoint { namespace: Arc::from(""), checkpoint: Box::new(checkpoint), pieces: Vec::new() }
}

/// Fails unless the error says that the lease is superseded.
pub(super) fn superseded<T: Debug>(what: &str, result: &Result<T, RunsError>) -> CaseResult {
    match result {
        Err(RunsError::Saver(SaverError::Superseded { .. })) => Ok(()),
        other => Err(ContractViolation(format!("{what}: {other:?} instead of `Superseded`"))),
    }
}

/// Claims a run as soon as one is claimable, such as a delayed run or the run of a dead worker.
pub(super) async fn claim_when_due(store: &Subject) -> Result<Claimed, ContractViolation> {
    loop {
        if let Some(claimed) = claim_for(store, LONG).await? {
            return Ok(claimed);
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

pub(super) async fn wait_until_ended(store: &Subject, id: Uuid) -> Result<Run, ContractViolation> {
    loop {
        match store.run(id).await? {
            Some(run) if run.status.is_live() => tokio::time::sleep(Duration::from_millis(5)).await,
            run => return some("the run", run),
        }
    }
}
