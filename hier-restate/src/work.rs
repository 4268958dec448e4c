//! A piece of work on a thread: what it is, and what came of it.

use std::time::{SystemTime, UNIX_EPOCH};

use hier_core::drive::PartialStep;
use hier_core::graph::DynInput;
use serde::{Deserialize, Serialize};

use crate::error::Failure;
use crate::slice::{Progress, RemoteTasks};
use crate::wire::{Ended, Entries, Piece, TaskDone, TaskEnd, UpdateState};

/// What a piece of work on a thread is.
#[derive(Clone, Debug)]
pub(crate) enum Work {
    /// A slice of a run.
    Slice(DynInput, Piece, Option<PartialStep>),
    /// A run of what is due.
    Wake(Piece),
    /// An update from outside.
    Update(UpdateState),
    /// A letter for the mailbox.
    Post(hier_core::checkpoint::InboxMessage),
    /// A look at when the thread is due.
    Look,
}

/// What came of it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum Answer {
    /// This worker has to be given the thread.
    Missing,
    Done(Box<Done>),
}

impl Answer {
    pub(crate) fn done(done: Done) -> Self {
        Self::Done(Box::new(done))
    }
}

/// What a piece of work did.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Done {
    /// What was committed.
    pub(crate) entries: Entries,
    pub(crate) end: End,
    pub(crate) progress: Progress,
    /// When the thread is due.
    pub(crate) due: Due,
    /// When it ended, likewise: when the next slice begins.
    pub(crate) now: u64,
    /// What is stored instead of the log so far.
    #[serde(with = "serde_bytes")]
    pub(crate) head: Option<Vec<u8>>,
}

/// When a thread is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Due {
    /// Then, in milliseconds since 1970; not at all if none.
    Known(Option<u64>),
    /// The work could not look: what is due stays due.
    Unknown,
}

/// How it ended.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum End {
    /// The run has ended.
    Run(Ended),
    /// The run goes on with the next slice.
    Stored,
    /// The run goes on once these tasks are done.
    Remote(#[serde(with = "serde_bytes")] Option<Vec<u8>>, RemoteTasks),
    /// A task of the run.
    Task(Result<TaskEnd, Failure>),
    /// An update: the namespace and the id of the checkpoint.
    Updated(Result<(String, Option<uuid::Uuid>), Failure>),
    /// A letter: whether it was new.
    Posted(Result<bool, Failure>),
    /// There was nothing to do.
    Nothing,
}

impl Done {
    pub(crate) fn of(end: End) -> Self {
        let (progress, now) = (Progress::default(), millis(SystemTime::now()));
        Self { entries: Entries::default(), end, progress, due: Due::Unknown, now, head: None }
    }

    pub(crate) fn failed(failure: Failure) -> Self {
        Self::of(End::Run(Err(failure)))
    }
}

impl Work {
    /// Whether it may look at older checkpoints.
    pub(crate) fn needs_history(&self) -> bool {
        match self {
            Self::Slice(_, piece, None) => piece.slice == 0 && piece.settings.checkpoint.is_some(),
            Self::Update(update) => update.settings.checkpoint.is_some() || !update.settings.namespace.is_empty(),
            _ => false,
        }
    }
}

impl TaskDone {
    pub(crate) fn of(entries: Vec<Entries>, end: Result<TaskEnd, Failure>) -> Self {
        Self { entries, end }
    }
}

/// Milliseconds since 1970.
pub(crate) fn millis(time: SystemTime) -> u64 {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}
