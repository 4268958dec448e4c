//! The event log of a thread.

use std::time::SystemTime;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::log_event::LogEvent;
use super::thread::ThreadRow;

/// The default limit of a thread's log, in bytes. Beyond it, the oldest events are deleted.
pub const LOG_BYTES: u64 = 32 << 20;

/// A new event.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct NewEvent {
    /// The run that it belongs to. None if the thread was changed from outside.
    pub run: Option<Uuid>,
    /// The graph that it comes from: `node:task id` for each graph on the way; empty for the root.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub namespace: Vec<String>,
    /// The content.
    pub body: LogEvent,
}

impl NewEvent {
    /// Creates an event of a root graph.
    pub fn new(run: impl Into<Option<Uuid>>, body: LogEvent) -> Self {
        Self { run: run.into(), namespace: Vec::new(), body }
    }

    /// Sets the namespace of the subgraph.
    #[must_use]
    pub fn namespace(mut self, namespace: Vec<String>) -> Self {
        self.namespace = namespace;
        self
    }

    /// Returns the name of its stream mode: see [`LogEvent::mode`].
    pub const fn mode(&self) -> &'static str {
        self.body.mode()
    }

    /// Estimates its size in bytes.
    pub fn bytes(&self) -> u64 {
        let namespace: usize = self.namespace.iter().map(String::len).sum();
        64 + namespace as u64 + self.body.bytes()
    }
}

/// An event of a thread's log.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct EventRow {
    /// Its number. Numbers start at 1 and rise within a thread.
    pub number: u64,
    /// The time at which it was appended.
    pub at: SystemTime,
    /// The event.
    pub event: NewEvent,
}

impl EventRow {
    /// Creates a stored event.
    pub const fn new(number: u64, at: SystemTime, event: NewEvent) -> Self {
        Self { number, at, event }
    }
}

/// A query for events.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct EventQuery {
    /// The id of the thread.
    pub thread: String,
    /// Only events with a greater number.
    pub after: u64,
    /// Only events of this run.
    pub run: Option<Uuid>,
    /// Maximum number of events.
    pub limit: usize,
}

impl EventQuery {
    /// Selects the events of a thread after this number, in pages of 1,000.
    pub fn after(thread: impl Into<String>, after: u64) -> Self {
        Self { thread: thread.into(), after, run: None, limit: 1_000 }
    }

    /// Selects only the events of this run.
    #[must_use]
    pub fn run(mut self, run: Uuid) -> Self {
        self.run = Some(run);
        self
    }

    /// Sets the maximum number of events.
    #[must_use]
    pub fn limit(mut self, limit: usize) -> Self {
        self.limit = limit;
        self
    }
}

/// Events that were read.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct EventPage {
    /// The events, in the order of their numbers.
    pub events: Vec<EventRow>,
    /// The number of the thread's last event of any run. 0 without events.
    pub last: u64,
    /// Events up to this number are gone: pruned, or more than the log holds.
    pub gone: u64,
    /// Creation time of the thread. If it changes, the reader reads another thread, created under the id of a deleted one.
    pub created: SystemTime,
}

impl EventPage {
    /// Events of this thread. A store reads the thread in the same transaction as the events, or after them.
    pub fn new(events: Vec<EventRow>, thread: &ThreadRow) -> Self {
        let last = events.last().map_or(0, |event| event.number).max(thread.last_event);
        Self { events, last, gone: thread.gone_events, created: thread.created }
    }
}
