//! Executes one claimed run, from its row to its end.

use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::Value;
use tokio::sync::OwnedSemaphorePermit;
use tokio::task::coop::unconstrained;
use tokio_util::sync::CancellationToken;

use super::context::WorkerContext;
use super::detached;
use super::ending::{self, ATTEMPTS_EXCEEDED, RunEnding, UNKNOWN_GRAPH};
use super::metrics::{LOST, REQUEUED, RunTimer};
use super::prepare;
use super::watch::{self, FlushState, LeaseHeartbeat, StopCause};
use hier_checkpoint::checkpoint::guard::reported;
use hier_checkpoint::panics;
use hier_core::checkpoint::{SaverError, SupersededBy};
use hier_core::graph::{BoxFuture, DynEventSink, DynGraph, DynRun};
use hier_core::runs::{Cancel, Claimed, Failure, Run, RunLog, RunsError};
use hier_core::{Outcome, RunError};

/// Executes a claimed run. If the end of the run cannot be stored, the next worker that claims the run continues it.
///
/// Releases the slot before it stores the end, so that a client that learns of the end can start its next run at once.
pub(super) async fn drive(
    shared: &WorkerContext,
    claimed: Claimed,
    slot: OwnedSemaphorePermit,
    stop: &CancellationToken,
) {
    let Claimed { run, lease, .. } = claimed;
    let keeps = prepare::keeps(run.request.durability);
    let log = Arc::new(RunLog::new(shared.store.clone(), lease, Some(run.id), keeps));
    let timer = RunTimer::start(&run);
    let ended = execute(shared, &run, &log, stop).await;
    timer.finish(match &ended {
        Ok(Some(ending)) => ending.status(shared, &run),
        Ok(None) => REQUEUED,
        Err(_) => LOST,
    });
    drop(slot);
    let stored = match ended {
        Ok(Some(ending)) => ending::finish(shared, &run, &log, ending).await,
        Ok(None) => ending::requeue(shared, &run, &log).await,
        Err(error) => Err(error),
    };
    match stored {
        Ok(()) => {}
        Err(RunsError::Saver(SaverError::Superseded { .. }) | RunsError::NoThread { .. }) => {
            tracing::info!(run = %run.id, thread = run.thread, "another worker took over the run, or its thread was deleted");
        }
        Err(error) => {
            tracing::warn!(run = %run.id, thread = run.thread, %error, "failed to execute a run; the next worker continues it");
        }
    }
}

/// Executes the run. Returns its end, or `None` if the run returns to the queue.
async fn execute(
    shared: &WorkerContext,
    run: &Run,
    log: &Arc<RunLog>,
    stop: &CancellationToken,
) -> Result<Option<RunEnding>, RunsError> {
    if let Some(action) = run.cancel {
        return Ok(Some(RunEnding::Cancelled(action)));
    }
    if run.attempts > shared.max_attempts {
        let message = format!(
            "the run was started {} times, and each time its worker died or lost the database: check whether one of its nodes \
             crashes the process",
            run.attempts - 1
        );
        return Ok(Some(RunEnding::Failed(Failure::new(ATTEMPTS_EXCEEDED, message))));
    }
    let Some(graph) = shared.graphs.get(&run.graph) else {
        let message = format!("the worker has no graph `{}`: run a worker whose program has the graph", run.graph);
        return Ok(Some(RunEnding::Failed(Failure::new(UNKNOWN_GRAPH, message))));
    };
    let entered = reported("list", prepare::is_entered(&*shared.store, run)).await?;
    let pause = CancellationToken::new();
    let cancel = pause.child_token();
    let limits = (shared.max_attempts, shared.max_steps);
    match prepare::prepare(&**graph, run, entered, limits, (cancel.clone(), pause.clone())) {
        Ok(prepared) => RunAttempt { shared, run, log, graph: &**graph, cancel, pause, stop }.execute(prepared).await,
        Err(failure) => Ok(Some(RunEnding::Failed(failure))),
    }
}

struct RunAttempt<'a> {
    shared: &'a WorkerContext,
    run: &'a Run,
    log: &'a Arc<RunLog>,
    graph: &'a dyn DynGraph,
    cancel: CancellationToken,
    /// Cancels the graph if another worker will continue the run.
    pause: CancellationToken,
    /// Cancelled when the worker stops.
    stop: &'a CancellationToken,
}

impl RunAttempt<'_> {
    /// Runs the graph and stores its events at the same time.
    async fn execute(&self, mut prepared: DynRun) -> Result<Option<RunEnding>, RunsError> {
        let (log, id) = (self.log.clone(), self.run.id);
        let sink: DynEventSink = Arc::new(move |mut event| {
            event.run = Some(id);
            log.push(event);
        });
        prepared.saver = Some(self.log.clone());
        prepared.store.clone_from(&self.shared.memory);
        prepared.event_sink = (!prepared.modes.is_empty()).then_some(sink);
        let state = FlushState::default();
        // A run that never waits uses up the budget that tokio gives its task. Other futures of this task must make
        // progress nevertheless.
        let mut flush = pin!(unconstrained(watch::flush(self.shared, self.log, &state)));
        let ended = self.run_until_stopped(prepared, flush.as_mut()).await;
        if ended.is_ok() {
            state.finish(flush).await;
        }
        ended
    }

    /// Runs the graph until it ends or must stop. Returns `None` if the run returns to the queue.
    async fn run_until_stopped(
        &self,
        prepared: DynRun,
        mut flush: Pin<&mut impl Future<Output = ()>>,
    ) -> Result<Option<RunEnding>, RunsError> {
        let Self { shared, run, log, graph, cancel, pause, stop } = self;
        let heartbeat = LeaseHeartbeat::start(shared, log.lease()).await;
        let returns = AtomicBool::new(false);
        let working: BoxFuture<'_, _> = if run.request.detached {
            let returns = &returns;
            Box::pin(async move {
                let recorded = cancel.run_until_cancelled(detached::is_recorded(shared, *graph, run)).await;
                if recorded == Some(false) {
                    returns.store(true, Ordering::Relaxed);
                    return Ok(Outcome::Finished(Value::Null));
                }
                graph.continue_detached(prepared).await
            })
        } else {
            graph.run(prepared)
        };
        let working = panics::caught(working);
        tokio::pin!(working);
        let limit = prepare::limit(&run.request).min(shared.max_run_time);
        let stopped = unconstrained(async {
            tokio::select! {
                reason = watch::stop_reason(shared, run, &heartbeat, limit, stop) => reason,
                () = flush.as_mut() => StopCause::Lost,
            }
        });
        let reason = tokio::select! {
            biased;
            ended = &mut working => {
                // The run returns to the queue, behind the run of its supervisor.
                return if returns.load(Ordering::Relaxed) { Ok(None) } else { own_ending(ended).map(Some) };
            }
            reason = stopped => reason,
        };
        if reason == StopCause::Shutdown && graph.runs_elsewhere() {
            return Ok(None);
        }
        // A cancelled graph returns when its last task has ended. The heartbeat keeps the lease until then.
        match reason {
            StopCause::Shutdown => pause.cancel(),
            StopCause::Lost if !self.is_deleted().await => pause.cancel(),
            _ => cancel.cancel(),
        }
        let ended = tokio::select! {
            biased;
            ended = &mut working => ended,
            () = unconstrained(heartbeat.lost()) => return Err(lost(log)),
            // `flush` is polled here, because commits of the run wait for events that are being stored.
            () = flush => return Err(lost(log)),
        };
        // The graph may have ended before it noticed the cancellation.
        match (own_ending(ended)?, reason) {
            _ if returns.load(Ordering::Relaxed) => {}
            (RunEnding::Failed(failure), _) if failure.error == CANCELLED => {}
            (ending, StopCause::Timeout | StopCause::Shutdown | StopCause::Cancelled(Cancel::Interrupt)) => {
                return Ok(Some(ending));
            }
            _ => {}
        }
        match reason {
            StopCause::Cancelled(action) => Ok(Some(RunEnding::Cancelled(action))),
            StopCause::Timeout => Ok(Some(RunEnding::TimedOut)),
            StopCause::Shutdown => Ok(None),
            StopCause::Lost => Err(lost(log)),
        }
    }

    /// Returns true if the run was deleted with its thread.
    async fn is_deleted(&self) -> bool {
        matches!(self.shared.store.run(self.run.id).await, Ok(None))
    }
}

fn lost(log: &RunLog) -> RunsError {
    let thread = log.lease().thread.to_string();
    RunsError::Saver(SaverError::Superseded { thread, by: SupersededBy::Claim })
}

/// The name of the error that a cancelled graph returns.
const CANCELLED: &str = "Cancelled";

type GraphResult = Result<Result<Outcome<Value>, RunError>, Box<dyn std::any::Any + Send>>;

/// Converts the result of the graph into the end of the run. Fails if another worker should continue the run.
fn own_ending(ended: GraphResult) -> Result<RunEnding, RunsError> {
    match ended {
        Err(payload) => Ok(RunEnding::Failed(Failure::new("Panic", panics::text(&*payload)))),
        Ok(Ok(outcome)) => Ok(RunEnding::Outcome(outcome)),
        Ok(Err(error)) => match error.root() {
            RunError::Saver {
                error: error @ (SaverError::Superseded { .. } | SaverError::Database { .. }), ..
            } => Err(RunsError::Saver(error.clone())),
            // Clients match the error of a node by its own text, so the node is reported separately.
            RunError::Node { graph, node, error } => {
                let place = format!("node `{node}` of graph `{graph}`");
                Ok(RunEnding::Failed(Failure::new(error.name(), error.to_string()).at(place)))
            }
            RunError::Elsewhere { kind, message } => Ok(RunEnding::Failed(Failure::new(kind.clone(), message.clone()))),
            root => Ok(RunEnding::Failed(Failure::new(root.name(), error.to_string()))),
        },
    }
}
