//! Work on a thread, and its results.

use std::time::{SystemTime, UNIX_EPOCH};

use hier_core::Config;
use hier_core::checkpoint::WhenRunning;
use hier_core::drive::PartialStep;
use hier_core::graph::DynInput;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::error::RunFailure;
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

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum WorkerAnswer {
    /// The worker does not have the thread in memory and needs its data.
    Missing,
    Done(Box<WorkResult>),
}

impl WorkerAnswer {
    pub(crate) fn done(done: WorkResult) -> Self {
        Self::Done(Box::new(done))
    }
}

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
}

impl ThreadWork {
    /// Returns true if the work may read checkpoints before the latest one.
    pub(crate) fn needs_history(&self) -> bool {
        match self {
            Self::Slice(slice) => slice.piece.settings.checkpoint.is_some(),
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
