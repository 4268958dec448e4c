//! Counts the attempts to continue a detached run. A run is not continued if it has failed, or if its process has ended
//! in too many attempts.
//!
//! A record at the checkpoint has the number of attempts. An attempt adds itself to the record when it begins. When it
//! releases the thread, it removes itself again. The record of a failure stays.

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::checkpoint::{CodecError, PendingWrite, Saved, TaskWrites, WriteRecord, codec, slot};
use crate::engine::durable::thread_reader::ThreadReader;
use crate::engine::log::committer::Committer;
use crate::error::RunError;
use crate::state::Values;

const ATTEMPTS: &str = "__attempts__";

#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
struct AttemptRecord {
    /// Number of attempts at the checkpoint that have begun and have not released the thread.
    begun: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    failure: Option<RunFailure>,
}

#[derive(Debug, Serialize, Deserialize)]
struct RunFailure {
    kind: String,
    message: String,
}

impl AttemptRecord {
    fn read(saved: &Saved) -> Result<Self, CodecError> {
        let mut of_callers =
            saved.writes.iter().filter(|record| record.task.is_nil()).flat_map(|record| &record.writes);
        let found = of_callers.find(|write| write.slot == slot::ATTEMPTS);
        found.map_or_else(|| Ok(Self::default()), |found| codec::decode(&found.value))
    }

    fn failed(error: &RunError) -> Self {
        let failure = RunFailure { kind: error.root().name().to_owned(), message: error.to_string() };
        Self { failure: Some(failure), ..Self::default() }
    }

    fn at(&self, checkpoint: Uuid) -> Result<WriteRecord, CodecError> {
        let write = PendingWrite { slot: slot::ATTEMPTS, channel: ATTEMPTS.into(), value: codec::encode_record(self)? };
        let writes = TaskWrites { checkpoint, task: Uuid::nil(), path: "~".into(), writes: vec![write] };
        Ok(WriteRecord::Writes { namespace: "".into(), writes })
    }
}

pub(in crate::engine) fn has_failed(saved: &Saved) -> bool {
    AttemptRecord::read(saved).is_ok_and(|record| record.failure.is_some())
}

/// Counts an attempt to continue a detached run. Fails if the run has failed before, or if too many attempts have not
/// released the thread.
pub(in crate::engine) async fn begin<S: Values, C>(
    reader: ThreadReader<'_, S, C>,
    committer: &Committer,
    saved: &Saved,
    max_attempts: u32,
) -> Result<(), RunError> {
    let checkpoint = saved.checkpoint.id;
    let record = AttemptRecord::read(saved).map_err(|error| reader.unfit(error))?;
    if let Some(RunFailure { kind, message }) = record.failure {
        return Err(RunError::Elsewhere { kind, message });
    }
    let store = async |record: &AttemptRecord| {
        let record = record.at(checkpoint).map_err(|error| reader.unfit(error))?;
        committer.commit_now(vec![record]).await.map_err(|error| reader.failed(error))
    };
    if record.begun >= max_attempts {
        let message = format!(
            "graph `{}` was continued {} times in the same superstep, and each time its process died or lost the \
             database: look for the reason in the logs of these processes",
            reader.graph_name(),
            record.begun
        );
        let error = RunError::Elsewhere { kind: "AttemptsExceeded".to_owned(), message };
        store(&AttemptRecord::failed(&error)).await?;
        return Err(error);
    }
    committer.store_at_release(record.at(checkpoint).ok());
    store(&AttemptRecord { begun: record.begun + 1, ..record }).await
}

/// Records the failure of a detached run at its last checkpoint, if a further attempt would fail in the same way. If the
/// record cannot be stored now, it is stored when the thread is released.
pub(in crate::engine) async fn record_failure(committer: &Committer, checkpoint: Uuid, error: &RunError) {
    let is_final = match error.root() {
        RunError::Node { error, .. } => !error.is_signal(),
        RunError::RecursionLimit { .. }
        | RunError::Conflict { .. }
        | RunError::Reduce { .. }
        | RunError::SharedCalls { .. }
        | RunError::Parent { .. } => true,
        _ => false,
    };
    if is_final && let Ok(record) = AttemptRecord::failed(error).at(checkpoint) {
        committer.store_at_release(Some(record.clone()));
        let _ = committer.commit_now(vec![record]).await;
    }
}
