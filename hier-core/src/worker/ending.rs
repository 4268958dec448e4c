//! How a run ended, as it is stored: with its last checkpoint, in one transaction.

use std::sync::Arc;

use serde_json::{Map, Value, json};

use super::Shared;
use crate::checkpoint::{Checkpointer, ListQuery, SaverError};
use crate::config::Config;
use crate::engine::Outcome;
use crate::graph::{DynSnapshot, interrupts};
use crate::panics;
use crate::question::Question;
use crate::runs::{Cancel, Failure, Run, RunEnd, RunLog, RunStatus, RunsError, ThreadIndex, ThreadStatus};

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
    let (mut index, end) = match ending {
        Ending::Outcome(outcome) => outcome_of(run, outcome),
        Ending::Failed(failure) => {
            let index = Box::pin(left(shared, run, log, ThreadStatus::Error, Some(failure.clone()))).await;
            (index, RunEnd::failed(run.id, failure))
        }
        Ending::TimedOut => {
            let failure = Failure::new("Timeout", "the run took longer than it may");
            let index = Box::pin(left(shared, run, log, ThreadStatus::Error, Some(failure.clone()))).await;
            (index, RunEnd { error: Some(failure), ..RunEnd::new(run.id, RunStatus::Timeout) })
        }
        Ending::Cancelled(Cancel::Interrupt) => {
            let failure = Failure::new("UserInterrupt", "the last run was cancelled");
            let index = Box::pin(left(shared, run, log, ThreadStatus::Idle, Some(failure))).await;
            (index, RunEnd::new(run.id, RunStatus::Interrupted))
        }
        Ending::Cancelled(Cancel::Rollback) => (Box::pin(before(shared, run)).await, RunEnd::rolled_back(run.id)),
    };
    index.config = Some(run.request.config.clone());
    match log.settle(Some(index), Some(end)).await {
        // What the run returned cannot be stored, and never will be.
        Err(RunsError::Saver(SaverError::Invalid(text))) => {
            let failure = Failure::new("CheckpointerError", text);
            let mut index = ThreadIndex::new(ThreadStatus::Error);
            (index.error, index.config) = (Some(failure.clone()), Some(run.request.config.clone()));
            log.settle(Some(index), Some(RunEnd::failed(run.id, failure))).await?;
        }
        settled => settled?,
    }
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
    log.settle(None, None).await?;
    shared.store.hand_back(log.lease(), run.id).await
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

/// What the index says of a thread whose run is rolled back: the checkpoint before the run.
async fn before(shared: &Shared, run: &Run) -> ThreadIndex {
    // Without an earlier one there are no values.
    let mut index = ThreadIndex::new(ThreadStatus::Idle).values(Value::Null);
    let id = run.id.to_string();
    let listed = shared.store.list(ListQuery::thread(&run.thread)).await.unwrap_or_default();
    let is_own = |metadata: &Map<String, Value>| metadata.get("run_id").and_then(Value::as_str) == Some(&*id);
    if let Some(earlier) = listed.iter().find(|listed| !is_own(&listed.checkpoint.metadata)) {
        let config = Config::thread(&run.thread).checkpoint(earlier.checkpoint.id);
        if let Some(snapshot) = snapshot(shared, run, shared.store.clone().as_checkpointer(), config).await {
            let waits = !snapshot.is_finished();
            index = ThreadIndex::new(if waits { ThreadStatus::Interrupted } else { ThreadStatus::Idle });
            index.interrupts = interrupts(&snapshot.questions);
            index.values = Some(snapshot.values);
        }
    }
    index.error = Some(Failure::new("UserRollback", "the last run was cancelled and rolled back"));
    index
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
