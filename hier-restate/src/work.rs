//! Work on a thread, and its results.

use std::time::{SystemTime, UNIX_EPOCH};

use hier_core::checkpoint::WhenRunning;
use hier_core::drive::PartialStep;
use hier_core::graph::DynInput;
use hier_core::{Config, Outcome};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::error::RunFailure;
use crate::message::Message;
use crate::slice::{RemoteTasks, SliceProgress};
use crate::wire::{EncodedEntries, Ended, SliceContext, TaskDone, TaskEnd, UpdateState};

#[derive(Clone, Debug)]
pub(crate) enum ThreadWork {
    Slice(Box<SliceWork>),
    /// The first slice of a run that the due time of the thread starts.
    Wake(SliceContext),
    /// The id identifies the update.
    Update(UpdateState, Uuid),
    Post(hier_core::checkpoint::InboxMessage),
    /// A check of the input of this work. The work itself is not done.
    Check(Box<ThreadWork>),
    /// A check of the time at which the thread is due.
    Look,
}

#[derive(Clone, Debug)]
pub(crate) struct SliceWork {
    pub(crate) input: DynInput,
    pub(crate) piece: SliceContext,
    pub(crate) part: Option<PartialStep>,
}

impl SliceWork {
    pub(crate) fn first(input: DynInput, piece: SliceContext) -> Self {
        Self { input, piece, part: None }
    }

    /// Creates a slice that continues from the latest checkpoint of the thread. Only a run that has stored nothing may
    /// use its input, and the settings that select where the run begins and which other run it ends.
    pub(crate) fn later(mut piece: SliceContext, part: Option<PartialStep>) -> Self {
        let settings = &mut piece.settings;
        (settings.checkpoint, settings.when_running) = (None, None);
        settings.namespace.clear();
        Self { input: DynInput::Continue, piece, part }
    }

    pub(crate) fn is_first(&self) -> bool {
        self.piece.slice == 0 && self.part.is_none()
    }
}

/// The answer of a worker. `None` if the worker does not have the thread in memory and needs its data.
pub(crate) type WorkerAnswer = Option<WorkResult>;

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct WorkResult {
    /// The entries to append to the log.
    pub(crate) entries: EncodedEntries,
    pub(crate) end: WorkEnd,
    pub(crate) progress: SliceProgress,
    /// The time at which the thread is due after the work.
    pub(crate) due: DueTime,
    /// The time at which the work ended, in milliseconds since 1970. It is also the time at which the next slice
    /// begins.
    pub(crate) now: u64,
    /// The head that replaces the earlier entries of the log.
    #[serde(with = "serde_bytes")]
    pub(crate) head: Option<Vec<u8>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum DueTime {
    /// A time in milliseconds since 1970. `None` if the thread is never due.
    Known(Option<u64>),
    /// Unknown, because the work did not get as far as the check. The thread keeps the due time that it has.
    Unknown,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum WorkEnd {
    Run(Ended),
    /// The run continues with the next slice.
    Stored,
    /// The run continues after these tasks, which other workers execute.
    Remote(#[serde(with = "serde_bytes")] Option<Vec<u8>>, RemoteTasks),
    /// The result of a task of the run.
    Task(Result<TaskEnd, RunFailure>),
    /// The namespace and the id of the checkpoint that an update has created.
    Updated(Result<(String, Option<Uuid>), RunFailure>),
    /// True if the message was new.
    Posted(Result<bool, RunFailure>),
    Nothing,
}

impl WorkResult {
    pub(crate) fn new(end: WorkEnd) -> Self {
        let (progress, now) = (SliceProgress::default(), millis(SystemTime::now()));
        Self { entries: EncodedEntries::default(), end, progress, due: DueTime::Unknown, now, head: None }
    }

    pub(crate) fn failed(failure: RunFailure) -> Self {
        Self::new(WorkEnd::Run(Err(failure)))
    }

    /// Encodes the result. If it is too large, omits one part after the other. Returns also the result in the message,
    /// or `None` if the thread does not change.
    pub(crate) fn message(self, limit: usize) -> (Message<WorkerAnswer>, Option<Self>) {
        let mut answer = Some(self);
        loop {
            match Message::encode("the data of the superstep with the outcome", &answer, limit) {
                Ok(message) => return (message, answer),
                Err(failure) => {
                    answer = answer.and_then(|done| done.without_a_part(&failure, limit));
                    if answer.is_none() {
                        return (Message::unchecked(&Some(Self::failed(failure))), None);
                    }
                }
            }
        }
    }

    /// Returns the result without its most dispensable part. Returns `None` if nothing else can be omitted than the
    /// entries. Then the work fails, and the thread does not change.
    fn without_a_part(mut self, failure: &RunFailure, limit: usize) -> Option<Self> {
        if self.head.take().is_some() {
            return Some(self);
        }
        self.end = match self.end {
            // The workers request the thread.
            WorkEnd::Remote(Some(_), tasks) => WorkEnd::Remote(None, tasks),
            // The next slice finds that the graph has finished, and returns the outcome without entries.
            WorkEnd::Run(Ok(Outcome::Finished(_))) if !self.entries.is_empty() => WorkEnd::Stored,
            WorkEnd::Run(ended) if ended.as_ref().map_or_else(|old| old.kind != failure.kind, |_| true) => {
                let whole = Message::encode("the outcome of the run with the state", &ended, limit).err();
                WorkEnd::Run(Err(whole.unwrap_or_else(|| failure.clone())))
            }
            _ => return None,
        };
        Some(self)
    }
}

impl ThreadWork {
    /// Returns true if the work may read checkpoints before the latest one.
    pub(crate) fn needs_history(&self) -> bool {
        match self {
            Self::Slice(slice) => slice.piece.settings.checkpoint.is_some(),
            Self::Check(work) => work.needs_history(),
            Self::Update(update, _) => update.settings.checkpoint.is_some() || !update.settings.namespace.is_empty(),
            _ => false,
        }
    }
}

impl TaskDone {
    pub(crate) fn new(entries: Vec<EncodedEntries>, end: Result<TaskEnd, RunFailure>) -> Self {
        Self { entries, end }
    }
}

/// Returns the name under which all attempts of a run or an update hold its thread.
pub(crate) fn holder_of(work: Uuid) -> String {
    format!("run {work} on a cluster")
}

/// Adds the claim of a run or an update. Without `when_running`, the engine's default for the input applies.
pub(crate) fn with_claim(config: Config, when_running: Option<WhenRunning>, work: Uuid) -> Config {
    let config = config.holder(holder_of(work));
    match when_running {
        Some(when_running) => config.when_running(when_running),
        None => config,
    }
}

/// Returns a time in milliseconds since 1970.
pub(crate) fn millis(time: SystemTime) -> u64 {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}
