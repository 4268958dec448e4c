//! Stores the end of a run, in the transaction of its last checkpoint.

use std::sync::Arc;
use std::time::SystemTime;

use serde_json::{Value, json};

use super::context::WorkerContext;
use super::detached;
use hier_checkpoint::panics;
use hier_core::Config;
use hier_core::Outcome;
use hier_core::Question;
use hier_core::RunError;
use hier_core::checkpoint::{Checkpointer, SaverError};
use hier_core::graph::{DynSnapshot, interrupts};
use hier_core::runs::{Cancel, Failure, Run, RunEnd, RunLog, RunStatus, RunsError, ThreadIndex, ThreadStatus};

/// Names of the errors of runs that cannot start.
pub(super) const ATTEMPTS_EXCEEDED: &str = "AttemptsExceeded";
pub(super) const UNKNOWN_GRAPH: &str = "UnknownGraph";

/// The way in which a run ended.
pub(super) enum RunEnding {
    /// The graph returned.
    Outcome(Outcome<Value>),
    Failed(Failure),
    Cancelled(Cancel),
    TimedOut,
}

impl RunEnding {
    /// Returns true if the run's detached subagents continue. They do not continue if the graph is unknown or may kill
    /// the process, or if a rollback removes them.
    fn leaves_detached(&self) -> bool {
        match self {
            Self::Failed(failure) => ![UNKNOWN_GRAPH, ATTEMPTS_EXCEEDED].contains(&&*failure.error),
            Self::Cancelled(action) => *action != Cancel::Rollback,
            Self::Outcome(_) | Self::TimedOut => true,
        }
    }

    /// Returns the status for metrics.
    pub(super) fn status(&self, shared: &WorkerContext, run: &Run) -> &'static str {
        match self {
            Self::Outcome(_) => "success",
            Self::Failed(_) => "error",
            Self::Cancelled(Cancel::Rollback) if !is_elsewhere(shared, run) => "rolled_back",
            Self::Cancelled(_) => "interrupted",
            Self::TimedOut => "timeout",
        }
    }
}

/// Stores the end of the run and reports it.
pub(super) async fn finish(
    shared: &WorkerContext,
    run: &Run,
    log: &Arc<RunLog>,
    ending: RunEnding,
) -> Result<(), RunsError> {
    match store_end(shared, run, log, ending).await {
        // A caller has cancelled the run after its graph returned. The run has stored something here.
        Err(RunsError::Cancelled { .. }) => Box::pin(end_rolled_back(shared, run, log)).await,
        stored => stored,
    }
}

async fn end_rolled_back(shared: &WorkerContext, run: &Run, log: &Arc<RunLog>) -> Result<(), RunsError> {
    let index = Box::pin(roll_back(shared, run, log)).await?;
    // The subagents of earlier runs continue.
    Box::pin(detached::add_runs(shared, run, log)).await?;
    let waits = index.as_ref().is_some_and(|index| index.due.is_some());
    log.finish(index, Some(RunEnd::rolled_back(run.id))).await?;
    report_end(shared, run, waits).await
}

async fn store_end(shared: &WorkerContext, run: &Run, log: &Arc<RunLog>, ending: RunEnding) -> Result<(), RunsError> {
    // The runs are added before the end is stored. If the worker dies in between, another worker ends this run and
    // finds the added runs.
    if ending.leaves_detached() {
        Box::pin(detached::add_runs(shared, run, log)).await?;
    }
    let (mut index, end) = match ending {
        RunEnding::Outcome(outcome) => outcome_of(run, outcome),
        RunEnding::Failed(failure) => {
            let status = status_after(shared, run, &failure).await;
            let index = Box::pin(index_of(shared, run, log, status, Some(failure.clone()))).await;
            (index, RunEnd::failed(run.id, failure))
        }
        RunEnding::TimedOut => {
            let failure = Failure::new("Timeout", "the run exceeded its time limit");
            let index = Box::pin(index_of(shared, run, log, ThreadStatus::Error, Some(failure.clone()))).await;
            (index, RunEnd::new(run.id, RunStatus::Timeout).because(failure))
        }
        RunEnding::Cancelled(Cancel::Interrupt) => {
            let failure = Failure::new("UserInterrupt", "the last run was cancelled");
            let index = Box::pin(index_of(shared, run, log, ThreadStatus::Idle, Some(failure))).await;
            (index, RunEnd::new(run.id, RunStatus::Interrupted))
        }
        RunEnding::Cancelled(Cancel::Rollback) if is_elsewhere(shared, run) => {
            let failure = Failure::new("RollbackUnsupported", ROLLBACK_UNSUPPORTED);
            let index = Box::pin(index_of(shared, run, log, ThreadStatus::Idle, Some(failure.clone()))).await;
            (index, RunEnd::new(run.id, RunStatus::Interrupted).because(failure))
        }
        RunEnding::Cancelled(Cancel::Rollback) => return Box::pin(end_rolled_back(shared, run, log)).await,
    };
    index.request = Some(run.request.clone());
    let mut waits = index.due.is_some();
    match log.finish(Some(index), Some(end)).await {
        // The result of the run cannot be stored.
        Err(RunsError::Saver(SaverError::Invalid(text))) => {
            let failure = Failure::new("CheckpointerError", text);
            let mut index = ThreadIndex::new(ThreadStatus::Error);
            (index.error, index.request) = (Some(failure.clone()), Some(run.request.clone()));
            log.finish(Some(index), Some(RunEnd::failed(run.id, failure))).await?;
            waits = false;
        }
        settled => settled?,
    }
    report_end(shared, run, waits).await
}

/// Deletes a temporary thread where its graph stores it, unless the thread waits for a timer. Calls the function of
/// `Worker::on_end`. The end of the run is stored before.
async fn report_end(shared: &WorkerContext, run: &Run, waits: bool) -> Result<(), RunsError> {
    if run.temporary
        && !waits
        && let Some(graph) = shared.graphs.get(&run.graph)
        && let Err(error) = graph.forget(&run.thread).await
    {
        tracing::warn!(thread = run.thread, %error, "failed to delete the data that a graph keeps of a temporary thread: delete it there");
    }
    if let Some(on_end) = &shared.on_end
        && let Ok(Some(run)) = shared.store.run(run.id).await
        && let Err(payload) = panics::catch(|| on_end(&run))
    {
        let message = panics::text(&*payload);
        tracing::error!(run = %run.id, message, "the function of `Worker::on_end` panicked after the run ended: fix the panic");
    }
    Ok(())
}

/// Stores the remaining events, and returns the run to the queue.
pub(super) async fn requeue(shared: &WorkerContext, run: &Run, log: &RunLog) -> Result<(), RunsError> {
    log.finish(None, None).await?;
    shared.store.requeue(log.lease(), run.id).await
}

fn outcome_of(run: &Run, outcome: Outcome<Value>) -> (ThreadIndex, RunEnd) {
    let (status, asked) = match &outcome {
        Outcome::Finished(_) => (ThreadStatus::Idle, Vec::new()),
        Outcome::Interrupted(interrupted) => (ThreadStatus::Interrupted, interrupted.questions.clone()),
        Outcome::Stopped(stopped) if stopped.next.is_empty() => (ThreadStatus::Idle, Vec::new()),
        Outcome::Stopped(_) => (ThreadStatus::Interrupted, Vec::new()),
    };
    let values = outcome.into_state();
    let output = json!({ "values": values, "interrupts": asked.iter().map(question_json).collect::<Vec<_>>() });
    let mut index = ThreadIndex::new(status).values(values);
    note_questions(&mut index, &asked);
    (index, RunEnd::new(run.id, RunStatus::Success).output(output))
}

/// Writes the open questions of a thread into its row.
fn note_questions(index: &mut ThreadIndex, asked: &[Question]) {
    index.interrupts = interrupts(asked);
    index.due = asked.iter().filter(|question| !question.answered).filter_map(|question| question.due).min();
}

/// Formats a question for the output of a run. A question of the root graph has no namespace.
fn question_json(question: &Question) -> Value {
    let mut asked = json!({ "id": question.id, "value": question.value });
    if let Some(schema) = &question.schema {
        asked["response_schema"] = schema.clone();
    }
    let namespace: Vec<&str> = question.namespace().collect();
    if !namespace.is_empty() {
        asked["namespace"] = json!(namespace);
    }
    asked
}

/// The name of the error for a refused answer. A run that ends with this error has changed nothing.
const REFUSED_ANSWER: &str = "AnswerError";

async fn status_after(shared: &WorkerContext, run: &Run, failure: &Failure) -> ThreadStatus {
    if failure.error != REFUSED_ANSWER {
        return ThreadStatus::Error;
    }
    match shared.store.thread(&run.thread).await {
        Ok(Some(before)) => before.settled,
        _ => ThreadStatus::Error,
    }
}

/// Returns the new row of a thread whose run failed or was cancelled. If the thread can be read, the row contains its
/// values and open questions.
async fn index_of(
    shared: &WorkerContext,
    run: &Run,
    log: &Arc<RunLog>,
    status: ThreadStatus,
    error: Option<Failure>,
) -> ThreadIndex {
    let mut index = match snapshot(shared, run, log.clone(), Config::new().thread(&run.thread)).await {
        Some(snapshot) => {
            let waits = status == ThreadStatus::Idle && !snapshot.is_finished();
            let mut index = ThreadIndex::new(if waits { ThreadStatus::Interrupted } else { status });
            note_questions(&mut index, &snapshot.questions);
            index.values = snapshot.checkpoint.map(|_| snapshot.values);
            index
        }
        None => unread_index(shared, run, status).await,
    };
    index.error = error;
    index
}

/// Returns the new row of a thread that the graph of the run cannot read, for example because the thread belongs to
/// another graph. A run that has stored nothing leaves the questions of the thread open.
async fn unread_index(shared: &WorkerContext, run: &Run, status: ThreadStatus) -> ThreadIndex {
    let mut index = ThreadIndex::new(status);
    let has_stored = !matches!(shared.store.run(run.id).await, Ok(Some(row)) if !row.entered);
    if run.request.detached || has_stored {
        return index;
    }
    if let Ok(Some(before)) = shared.store.thread(&run.thread).await {
        index.interrupts = before.interrupts;
        if before.settled == ThreadStatus::Interrupted {
            index.status = before.settled;
        }
    }
    index
}

/// The error of a cancelled run whose rollback is not possible.
const ROLLBACK_UNSUPPORTED: &str = "the run was cancelled and not rolled back, because the effects of a run on a cluster cannot be undone: \
                         cancel such runs with `interrupt`, and start the next run from an earlier checkpoint";

/// Returns true if the effects of the run are outside this store.
fn is_elsewhere(shared: &WorkerContext, run: &Run) -> bool {
    shared.graphs.get(&run.graph).is_some_and(|graph| graph.runs_elsewhere())
}

/// Undoes the run, and returns the new row of its thread. Returns `None` if the thread cannot be read.
async fn roll_back(shared: &WorkerContext, run: &Run, log: &Arc<RunLog>) -> Result<Option<ThreadIndex>, RunsError> {
    log.undo().await?;
    update_due(shared, run, log).await;
    let Some(snapshot) = snapshot(shared, run, log.clone(), Config::new().thread(&run.thread)).await else {
        return Ok(None);
    };
    let waits = !snapshot.is_finished();
    let mut index = ThreadIndex::new(if waits { ThreadStatus::Interrupted } else { ThreadStatus::Idle });
    note_questions(&mut index, &snapshot.questions);
    // Without a checkpoint, the values in the row stay the same, because a run changes them only at its end.
    index.values = snapshot.checkpoint.map(|_| snapshot.values);
    let of_last_run = |key: &&str| snapshot.metadata.contains_key(*key);
    let known = ["graph_id", "assistant_id"].into_iter().filter(of_last_run);
    index.metadata = known.map(|key| (key.to_owned(), snapshot.metadata[key].clone())).collect();
    index.error = Some(Failure::new("UserRollback", "the last run was cancelled and rolled back"));
    if let Some(before) = shared.store.thread(&run.thread).await?
        && before.settled == ThreadStatus::Error
    {
        (index.status, index.error) = (before.settled, before.error);
    }
    Ok(Some(index))
}

/// Updates the time at which the thread is due, because the run that was undone may have changed it.
async fn update_due(shared: &WorkerContext, run: &Run, log: &Arc<RunLog>) {
    let Some(graph) = shared.graphs.get(&run.graph) else { return };
    let now = SystemTime::now();
    let failed =
        "failed to update when a thread is due after the rollback of its run: the thread may be due at the wrong time";
    let panicked = "updating when a thread is due panicked after the rollback of its run: fix the panic";
    ok_or_log(run, graph.is_due(log.clone(), &run.thread, now, Some(now)), (failed, panicked)).await;
}

/// Reads the thread of a run. Returns `None` if the read fails or panics, and logs the reason.
async fn snapshot(
    shared: &WorkerContext,
    run: &Run,
    saver: Arc<dyn Checkpointer>,
    config: Config,
) -> Option<DynSnapshot> {
    // The run of a detached subagent names the supervisor's graph, which cannot read the subagent's thread.
    let graph = shared.graphs.get(&run.graph).filter(|_| !run.request.detached)?;
    let failed = "failed to read the thread of a run that ended; the run ends without values";
    let panicked = "reading the thread of a run panicked; the run ends without values: fix the panic";
    ok_or_log(run, graph.state(saver, config), (failed, panicked)).await
}

/// Returns the result of a call. Returns `None` if the call fails or panics, and logs the reason.
async fn ok_or_log<T>(
    run: &Run,
    call: impl Future<Output = Result<T, RunError>>,
    (failed, panicked): (&str, &str),
) -> Option<T> {
    match panics::caught(call).await {
        Ok(Ok(result)) => Some(result),
        Ok(Err(error)) => {
            tracing::warn!(thread = run.thread, %error, "{failed}");
            None
        }
        Err(payload) => {
            tracing::error!(thread = run.thread, message = panics::text(&*payload), "{panicked}");
            None
        }
    }
}
