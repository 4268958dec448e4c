//! How a run ended, as it is stored: with its last checkpoint, in one transaction.

use std::sync::Arc;
use std::time::SystemTime;

use serde_json::{Value, json};

use super::shared::Shared;
use hier_checkpoint::panics;
use hier_core::Config;
use hier_core::Outcome;
use hier_core::Question;
use hier_core::checkpoint::{Checkpointer, SaverError};
use hier_core::graph::{DynSnapshot, interrupts};
use hier_core::runs::{Cancel, Failure, Run, RunEnd, RunLog, RunStatus, RunsError, ThreadIndex, ThreadStatus};

/// How a run ended.
pub(super) enum Ending {
    /// By itself, and well.
    Outcome(Outcome<Value>),
    /// It failed.
    Failed(Failure),
    /// It was cancelled.
    Cancelled(Cancel),
    /// It took longer than it may.
    TimedOut,
}

/// Stores how the run ended.
pub(super) async fn settle(shared: &Shared, run: &Run, log: &Arc<RunLog>, ending: Ending) -> Result<(), RunsError> {
    let (index, end) = match ending {
        Ending::Outcome(outcome) => outcome_of(run, outcome),
        Ending::Failed(failure) => {
            let index = Box::pin(left(shared, run, log, ThreadStatus::Error, Some(failure.clone()))).await;
            (index, RunEnd::failed(run.id, failure))
        }
        Ending::TimedOut => {
            let failure = Failure::new("Timeout", "the run took longer than it may");
            let index = Box::pin(left(shared, run, log, ThreadStatus::Error, Some(failure.clone()))).await;
            (index, RunEnd::new(run.id, RunStatus::Timeout).because(failure))
        }
        Ending::Cancelled(Cancel::Interrupt) => {
            let failure = Failure::new("UserInterrupt", "the last run was cancelled");
            let index = Box::pin(left(shared, run, log, ThreadStatus::Idle, Some(failure))).await;
            (index, RunEnd::new(run.id, RunStatus::Interrupted))
        }
        Ending::Cancelled(Cancel::Rollback) if is_elsewhere(shared, run) => {
            let failure = Failure::new("RollbackUnsupported", ELSEWHERE);
            let index = Box::pin(left(shared, run, log, ThreadStatus::Idle, Some(failure.clone()))).await;
            (index, RunEnd::new(run.id, RunStatus::Interrupted).because(failure))
        }
        Ending::Cancelled(Cancel::Rollback) => {
            let index = Box::pin(undone(shared, run, log)).await?;
            log.finish(index, Some(RunEnd::rolled_back(run.id))).await?;
            return ended(shared, run).await;
        }
    };
    let mut index = index;
    index.config = Some(run.request.config.clone());
    match log.finish(Some(index), Some(end)).await {
        // The result of the run can never be stored.
        Err(RunsError::Saver(SaverError::Invalid(text))) => {
            let failure = Failure::new("CheckpointerError", text);
            let mut index = ThreadIndex::new(ThreadStatus::Error);
            (index.error, index.config) = (Some(failure.clone()), Some(run.request.config.clone()));
            log.finish(Some(index), Some(RunEnd::failed(run.id, failure))).await?;
        }
        settled => settled?,
    }
    ended(shared, run).await
}

/// Tells of the end of a run that is stored.
async fn ended(shared: &Shared, run: &Run) -> Result<(), RunsError> {
    if run.temporary
        && let Some(graph) = shared.graphs.get(&run.graph)
        && let Err(error) = graph.forget(&run.thread).await
    {
        tracing::warn!(thread = run.thread, %error, "a thread that was made for one run is not forgotten where it is kept");
    }
    if let Some(ended) = &shared.ended
        && let Ok(Some(run)) = shared.store.run(run.id).await
        && let Err(payload) = panics::catch(|| ended(&run))
    {
        let message = panics::text(&*payload);
        tracing::error!(run = %run.id, message, "what `Worker::on_end` was given panicked; the run has ended: mend the panic");
    }
    Ok(())
}

/// Hands the run back: what it has stored stays, and what waits to be stored is stored.
pub(super) async fn hand_back(shared: &Shared, run: &Run, log: &RunLog) -> Result<(), RunsError> {
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
    index.interrupts = interrupts(&asked);
    (index, RunEnd::new(run.id, RunStatus::Success).output(output))
}

/// A question in the output of a run: with the schema of its answer, and with the graph that asks, if that is not the root.
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

/// What the index says of a thread whose run did not end well: its last checkpoint, as far as it can be read, and what the run's
/// tasks left there, which is stored with the index.
async fn left(
    shared: &Shared,
    run: &Run,
    log: &Arc<RunLog>,
    status: ThreadStatus,
    error: Option<Failure>,
) -> ThreadIndex {
    let mut index = match snapshot(shared, run, log.clone(), Config::thread(&run.thread)).await {
        Some(snapshot) => {
            let waits = status == ThreadStatus::Idle && !snapshot.is_finished();
            let mut index = ThreadIndex::new(if waits { ThreadStatus::Interrupted } else { status });
            index.interrupts = interrupts(&snapshot.questions);
            index.values = snapshot.checkpoint.map(|_| snapshot.values);
            index
        }
        None => ThreadIndex::new(status),
    };
    index.error = error;
    index
}

/// Why a run is cancelled that was to be rolled back.
const ELSEWHERE: &str = "the run was cancelled and not rolled back: what a run did on a cluster cannot be undone; cancel such runs with \
                         `interrupt`, and go back with a checkpoint";

/// Returns true if the effects of the run are outside this store.
fn is_elsewhere(shared: &Shared, run: &Run) -> bool {
    shared.graphs.get(&run.graph).is_some_and(|graph| graph.runs_elsewhere())
}

/// Undoes everything that the run did, and returns the thread's index without it. Returns none if the thread cannot be read.
async fn undone(shared: &Shared, run: &Run, log: &Arc<RunLog>) -> Result<Option<ThreadIndex>, RunsError> {
    log.undo().await?;
    settle_due(shared, run, log).await;
    let Some(snapshot) = snapshot(shared, run, log.clone(), Config::thread(&run.thread)).await else { return Ok(None) };
    let waits = !snapshot.is_finished();
    let mut index = ThreadIndex::new(if waits { ThreadStatus::Interrupted } else { ThreadStatus::Idle });
    index.interrupts = interrupts(&snapshot.questions);
    // Without a checkpoint the index is unchanged, because a run changes it only at its end.
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

/// Makes the thread due if its stored state requires it, because the run may have changed that.
async fn settle_due(shared: &Shared, run: &Run, log: &Arc<RunLog>) {
    let Some(graph) = shared.graphs.get(&run.graph) else { return };
    let now = SystemTime::now();
    match panics::caught(graph.is_due(log.clone(), &run.thread, now, Some(now))).await {
        Ok(Ok(_)) => {}
        Ok(Err(error)) => {
            tracing::warn!(thread = run.thread, %error, "cannot say when a thread is due whose run was rolled back");
        }
        Err(payload) => {
            let message = panics::text(&*payload);
            tracing::error!(
                thread = run.thread,
                message,
                "saying when a thread is due panicked after its run was rolled back"
            );
        }
    }
}

/// A thread as it is stored. What cannot be read is left as the index has it.
async fn snapshot(shared: &Shared, run: &Run, saver: Arc<dyn Checkpointer>, config: Config) -> Option<DynSnapshot> {
    let graph = shared.graphs.get(&run.graph)?;
    match panics::caught(graph.state(saver, config)).await {
        Ok(Ok(snapshot)) => Some(snapshot),
        Ok(Err(error)) => {
            tracing::warn!(thread = run.thread, %error, "the thread of a run that ended cannot be read");
            None
        }
        Err(payload) => {
            let message = panics::text(&*payload);
            tracing::error!(
                thread = run.thread,
                message,
                "reading the thread of a run that ended panicked; the run is ended without its values: mend how the state is read"
            );
            None
        }
    }
}
