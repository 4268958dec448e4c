//! Does one claimed run, from its row to its end.

use std::pin::{Pin, pin};
use std::sync::Arc;

use serde_json::Value;
use tokio::sync::OwnedSemaphorePermit;
use tokio::task::coop::unconstrained;
use tokio_util::sync::CancellationToken;

use super::ending::{self, Ending};
use super::prepare;
use super::shared::Shared;
use super::watch::{self, Heartbeat, Stop, Storing};
use hier_checkpoint::checkpoint::guard::reported;
use hier_checkpoint::panics;
use hier_core::checkpoint::SaverError;
use hier_core::graph::{DynGraph, DynRun, DynTell};
use hier_core::runs::{Cancel, Claimed, Failure, Run, RunLog, RunsError};
use hier_core::{Outcome, RunError};

/// Does the run. Whatever goes wrong, it is stored, or the run is left to whoever claims it next. Its place is free for another one once
/// nothing of it is at work any more: whoever hears of its end may add the next run at once.
pub(super) async fn drive(shared: &Shared, claimed: Claimed, place: OwnedSemaphorePermit, stop: &CancellationToken) {
    let Claimed { run, lease, .. } = claimed;
    let keeps = prepare::keeps(run.request.durability);
    let log = Arc::new(RunLog::new(shared.store.clone(), lease, Some(run.id), keeps));
    let done = done(shared, &run, &log, stop).await;
    drop(place);
    let done = match done {
        Ok(Some(ending)) => ending::settle(shared, &run, &log, ending).await,
        Ok(None) => ending::hand_back(shared, &run, &log).await,
        Err(error) => Err(error),
    };
    match done {
        Ok(()) => {}
        Err(RunsError::Saver(SaverError::Superseded { .. }) | RunsError::NoThread { .. }) => {
            tracing::info!(run = %run.id, thread = run.thread, "a run was taken over, or its thread was deleted");
        }
        Err(error) => {
            tracing::warn!(run = %run.id, thread = run.thread, %error, "a run is left to the next worker");
        }
    }
}

/// How the run ended; none if it is to be handed back.
async fn done(
    shared: &Shared,
    run: &Run,
    log: &Arc<RunLog>,
    stop: &CancellationToken,
) -> Result<Option<Ending>, RunsError> {
    if let Some(action) = run.cancel {
        return Ok(Some(Ending::Cancelled(action)));
    }
    if run.attempts > shared.attempts {
        let message = format!(
            "the run was begun {} times, and each time its worker died with it, or lost the database: see what its nodes do \
             to the process",
            run.attempts - 1
        );
        return Ok(Some(Ending::Failed(Failure::new("AttemptsExceeded", message))));
    }
    let Some(graph) = shared.graphs.get(&run.graph) else {
        let message = format!("there is no graph `{}` in this program", run.graph);
        return Ok(Some(Ending::Failed(Failure::new("UnknownGraph", message))));
    };
    let entered = reported("list", prepare::is_entered(&*shared.store, run)).await?;
    let cancel = CancellationToken::new();
    match prepare::prepare(&**graph, run, entered, shared.max_steps, cancel.clone()) {
        Ok(prepared) => attempt(shared, run, log, (&**graph, prepared, cancel), stop).await,
        Err(failure) => Ok(Some(Ending::Failed(failure))),
    }
}

/// Runs the graph, and everything beside it.
async fn attempt(
    shared: &Shared,
    run: &Run,
    log: &Arc<RunLog>,
    (graph, mut prepared, cancel): (&dyn DynGraph, DynRun, CancellationToken),
    stop: &CancellationToken,
) -> Result<Option<Ending>, RunsError> {
    let (told, id) = (log.clone(), run.id);
    let tell: DynTell = Arc::new(move |mut event| {
        event.run = Some(id);
        told.push(event);
    });
    prepared.saver = Some(log.clone());
    prepared.store.clone_from(&shared.memory);
    prepared.tell = (!prepared.modes.is_empty()).then_some(tell);
    let storing = Storing::default();
    // A run that never waits uses up tokio's budget for its task. Futures polled in the same task must make progress nevertheless.
    let mut flush = pin!(unconstrained(watch::flush(shared, log, &storing)));
    let ended = watched(shared, run, log, (graph, prepared, cancel), (stop, flush.as_mut())).await;
    if ended.is_ok() {
        storing.end(flush).await;
    }
    ended
}

/// Runs the graph, and stops it if it is to be stopped.
async fn watched(
    shared: &Shared,
    run: &Run,
    log: &Arc<RunLog>,
    (graph, prepared, cancel): (&dyn DynGraph, DynRun, CancellationToken),
    (stop, mut flush): (&CancellationToken, Pin<&mut impl Future<Output = ()>>),
) -> Result<Option<Ending>, RunsError> {
    let heartbeat = Heartbeat::begin(shared, log.lease()).await;
    let working = panics::caught(graph.run(prepared));
    tokio::pin!(working);
    let limit = prepare::limit(&run.request).min(shared.max_run_time);
    let stopped = unconstrained(async {
        tokio::select! {
            stop = watch::stopped(shared, run, &heartbeat, limit, stop) => stop,
            () = flush.as_mut() => Stop::Lost,
        }
    });
    let why = tokio::select! {
        biased;
        ended = &mut working => return ended_by_itself(ended).map(Some),
        why = stopped => why,
    };
    if why == Stop::Shutdown && graph.runs_elsewhere() {
        return Ok(None);
    }
    // A run that was cancelled returns when its last task is gone. Until then the lease is kept.
    cancel.cancel();
    let ended = tokio::select! {
        biased;
        ended = &mut working => ended,
        () = unconstrained(heartbeat.lost()) => return Err(lost(log)),
        // What is being stored keeps what the run itself stores waiting.
        () = flush => return Err(lost(log)),
    };
    // It may have ended before it was told.
    match (ended_by_itself(ended)?, why) {
        (Ending::Failed(failure), _) if failure.error == CANCELLED => {}
        (ending, Stop::Timeout | Stop::Shutdown | Stop::Cancelled(Cancel::Interrupt)) => return Ok(Some(ending)),
        _ => {}
    }
    match why {
        Stop::Cancelled(action) => Ok(Some(Ending::Cancelled(action))),
        Stop::Timeout => Ok(Some(Ending::TimedOut)),
        Stop::Shutdown => Ok(None),
        Stop::Lost => Err(lost(log)),
    }
}

fn lost(log: &RunLog) -> RunsError {
    RunsError::Saver(SaverError::Superseded { thread: log.lease().thread.to_string() })
}

/// The kind of a failure of a run that was cancelled.
const CANCELLED: &str = "Cancelled";

type Ended = Result<Result<Outcome<Value>, RunError>, Box<dyn std::any::Any + Send>>;

/// How the run ended; an error if that is for the next worker to say.
fn ended_by_itself(ended: Ended) -> Result<Ending, RunsError> {
    match ended {
        Err(payload) => Ok(Ending::Failed(Failure::new("Panic", panics::text(&*payload)))),
        Ok(Ok(outcome)) => Ok(Ending::Outcome(outcome)),
        Ok(Err(error)) => match error.root() {
            RunError::Saver {
                error: error @ (SaverError::Superseded { .. } | SaverError::Database { .. }), ..
            } => Err(RunsError::Saver(error.clone())),
            // Clients know the error of a node by its own words; where it was is told beside them.
            RunError::Node { graph, node, error } => {
                let place = format!("node `{node}` of graph `{graph}`");
                Ok(Ending::Failed(Failure::new(error.name(), error.to_string()).at(place)))
            }
            RunError::Elsewhere { kind, message } => Ok(Ending::Failed(Failure::new(kind.clone(), message.clone()))),
            root => Ok(Ending::Failed(Failure::new(root.name(), error.to_string()))),
        },
    }
}
