//! The index of threads.

use std::collections::HashSet;
use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::error::{Failure, RunsError};
use super::metadata::contains;
use super::request::Request;
use super::status::ThreadStatus;

/// A thread in the index of a run store.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ThreadRow {
    /// The id.
    pub id: String,
    /// The metadata from callers, and the `graph_id` and `assistant_id` of the last run that has changed the thread.
    pub metadata: Map<String, Value>,
    /// The status. [`ThreadStatus::Busy`] while a run has not ended.
    pub status: ThreadStatus,
    /// The status that the thread has when all its runs have ended.
    pub settled: ThreadStatus,
    /// The configuration of the last run.
    pub config: Map<String, Value>,
    /// The request of the last run, without its configuration, input and command. A timer continues the thread with this
    /// request if the run no longer exists. `None` if the thread has no run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request: Option<Request>,
    /// The values of the channels after the last run or update. `None` before the first run, and if the query did not
    /// include the values.
    #[serde(skip)]
    pub values: Option<Value>,
    /// The open questions of each task, by task id.
    pub interrupts: Map<String, Value>,
    /// The failure of the last run, or the reason why it was cancelled (`UserInterrupt`, `UserRollback`). `None` if the
    /// last run succeeded.
    pub error: Option<Failure>,
    /// The time of creation.
    pub created: SystemTime,
    /// The time of the last change.
    pub updated: SystemTime,
    /// The time of the last change of the values.
    pub state_updated: SystemTime,
    /// The time for which the thread is kept after its last change. `None` keeps the thread forever.
    pub time_to_live: Option<Duration>,
    /// The number of the latest event.
    pub last_event: u64,
    /// The number of the last deleted event. All events up to this number were deleted.
    pub gone_events: u64,
    /// The size of the stored events, in bytes.
    pub event_bytes: u64,
    /// The time at which the latest ended run of the thread ended. `None` if no run has ended.
    pub free_since: Option<SystemTime>,
    /// True if the thread was created for one run. The thread expires one minute after the run has ended. If the thread
    /// then waits for a timer or a deadline, the thread expires one day after that time instead. A search finds the
    /// thread only by its id.
    #[serde(default)]
    pub temporary: bool,
}

impl ThreadRow {
    /// Creates a thread without a history.
    pub fn new(thread: NewThread, now: SystemTime) -> Self {
        Self {
            id: thread.id,
            metadata: thread.metadata,
            status: ThreadStatus::Idle,
            settled: ThreadStatus::Idle,
            config: thread.config.unwrap_or_default(),
            request: None,
            values: None,
            interrupts: Map::new(),
            error: None,
            created: now,
            updated: now,
            state_updated: now,
            time_to_live: thread.time_to_live,
            last_event: 0,
            gone_events: 0,
            event_bytes: 0,
            free_since: None,
            temporary: false,
        }
    }

    /// Returns a copy with another id, without runs and events. The copy has the metadata of this thread, with the
    /// entries of `to.metadata` added or replaced. It has the configuration in `to.config`, or else that of this thread.
    /// Runs that a timer starts on the copy have the context of the original's last run, but no webhook.
    #[must_use]
    pub fn copy_to(&self, to: NewThread, now: SystemTime) -> Self {
        let mut metadata = self.metadata.clone();
        metadata.extend(to.metadata);
        // A temporary thread expires soon, but its copy does not.
        let time_to_live = to.time_to_live.or(self.time_to_live.filter(|_| !self.temporary));
        let new = NewThread { metadata, time_to_live, ..NewThread::new(to.id) };
        Self {
            status: self.settled,
            settled: self.settled,
            config: to.config.unwrap_or_else(|| self.config.clone()),
            request: self.request.clone().map(|request| Request { webhook: None, ..request }),
            values: self.values.clone(),
            interrupts: self.interrupts.clone(),
            error: self.error.clone(),
            // If the index does not know the state of the original, it does not know that of the copy.
            state_updated: if self.state_updated == self.created { now } else { self.state_updated },
            ..Self::new(new, now)
        }
    }

    /// Applies a patch. Does not check the condition in [`ThreadPatch::on`].
    pub fn patch(&mut self, patch: ThreadPatch, now: SystemTime) {
        self.metadata.extend(patch.metadata);
        if let Some(lives) = patch.time_to_live {
            self.time_to_live = Some(lives);
        }
        self.updated = now;
    }

    /// Applies `index`, which contains the changes that a run or a state update has made.
    pub fn take(&mut self, index: ThreadIndex, now: SystemTime) {
        self.settled = index.status;
        if let Some(values) = index.values {
            self.values = Some(values);
            self.state_updated = now;
        }
        self.interrupts = index.interrupts;
        self.error = index.error;
        self.metadata.extend(index.metadata);
        if let Some(mut request) = index.request {
            request.continue_thread();
            self.config = std::mem::take(&mut request.config);
            self.request = Some(request);
        }
        self.updated = now;
    }

    /// Returns the ids of the questions that are open.
    pub(super) fn open_questions(&self) -> HashSet<&str> {
        let asked = self.interrupts.values().filter_map(Value::as_array).flatten();
        asked.filter_map(|asked| asked.get("id")?.as_str()).collect()
    }

    /// Returns true if the time to live has passed since the last change of the thread, and all runs of the thread have
    /// ended.
    pub fn is_expired(&self, now: SystemTime) -> bool {
        let ends = self.time_to_live.and_then(|lives| self.updated.checked_add(lives));
        self.status != ThreadStatus::Busy && ends.is_some_and(|ends| ends < now)
    }
}

/// A condition on a thread. Every thread meets the default condition. A caller that has checked access rights uses a
/// condition, because in the meantime the thread may be deleted, and another user may create a thread with the same id.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ThreadIs {
    /// The creation time of the thread. `None` matches any creation time.
    pub created: Option<SystemTime>,
    /// Entries that the thread's metadata must contain ([`contains`]).
    pub metadata: Map<String, Value>,
}

impl ThreadIs {
    /// Creates a condition that only this thread meets. Later changes of the thread do not matter.
    pub fn this(thread: &ThreadRow) -> Self {
        Self { created: Some(thread.created), metadata: Map::new() }
    }

    /// Returns true if every thread meets the condition.
    pub fn is_any(&self) -> bool {
        *self == Self::default()
    }

    /// Returns true if this thread meets the condition.
    pub fn is(&self, thread: &ThreadRow) -> bool {
        let has = |(key, want): (&String, &Value)| thread.metadata.get(key).is_some_and(|have| contains(have, want));
        self.created.is_none_or(|created| created == thread.created) && self.metadata.iter().all(has)
    }

    /// Returns [`RunsError::NoThread`] if this thread does not meet the condition.
    pub(super) fn check(&self, thread: &ThreadRow) -> Result<(), RunsError> {
        if self.is(thread) { Ok(()) } else { Err(RunsError::NoThread { thread: thread.id.clone() }) }
    }
}

/// The changes of a thread's [row](ThreadRow) in the index after a run or a state update.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct ThreadIndex {
    /// The status of the thread after the run or the update. While another run of the thread has not ended, the thread
    /// is [`ThreadStatus::Busy`] instead.
    pub status: ThreadStatus,
    /// The channel values. `None` keeps the existing values.
    pub values: Option<Value>,
    /// The open questions of each task, by task id.
    pub interrupts: Map<String, Value>,
    /// The failure of the run, or the reason why it was cancelled. `None` if the run succeeded.
    pub error: Option<Failure>,
    /// The metadata to add to the thread.
    pub metadata: Map<String, Value>,
    /// The request of the run. `None` keeps the existing configuration and request of the thread.
    pub request: Option<Request>,
    /// The time at which a timer or a deadline continues the thread, or `None` if no time does. A temporary thread is
    /// kept until one day after this time.
    pub due: Option<SystemTime>,
}

impl ThreadIndex {
    /// Creates changes that set the status of a thread and keep the values of the thread.
    pub fn new(status: ThreadStatus) -> Self {
        Self { status, ..Self::default() }
    }

    /// Sets the values.
    #[must_use]
    pub fn values(mut self, values: Value) -> Self {
        self.values = Some(values);
        self
    }
}

/// A thread to create.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct NewThread {
    /// The id.
    pub id: String,
    /// The metadata.
    pub metadata: Map<String, Value>,
    /// The time for which the thread is kept after its last change. `None` keeps the thread forever.
    pub time_to_live: Option<Duration>,
    /// The configuration with which a timer continues the thread until the first run. Defaults to an empty one, and for
    /// a copy to that of the original. It names the user of the run, so a copy for another user needs its own.
    pub config: Option<Map<String, Value>>,
    /// The action if a thread with this id already exists.
    pub if_exists: IfExists,
}

impl NewThread {
    /// Creates a thread with this id.
    pub fn new(id: impl Into<String>) -> Self {
        Self { id: id.into(), ..Self::default() }
    }
}

/// The action if a thread with the id of a new thread already exists.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum IfExists {
    /// Fails with [`RunsError::Exists`](super::RunsError::Exists).
    #[default]
    Raise,
    /// Returns the existing thread unchanged.
    DoNothing,
}

/// A change of a thread by a caller.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct ThreadPatch {
    /// The metadata to add. Existing keys are replaced.
    pub metadata: Map<String, Value>,
    /// The new time for which the thread is kept after its last change. `None` keeps the existing time.
    pub time_to_live: Option<Duration>,
    /// A condition on the thread. If the thread does not meet this condition, the call fails with
    /// [`NoThread`](RunsError::NoThread).
    pub on: ThreadIs,
}

impl ThreadPatch {
    /// Creates a patch of the metadata.
    pub fn metadata(metadata: Map<String, Value>) -> Self {
        Self { metadata, ..Self::default() }
    }
}
