//! The event log of a thread.

use std::time::SystemTime;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::log_event::LogEvent;
use super::thread::ThreadRow;

/// The size limit of a thread's log, in bytes. If the log exceeds the limit, the oldest events are deleted until the
/// log is half full.
pub const LOG_BYTES: u64 = 32 << 20;

/// An event to append to a thread's log.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct NewEvent {
    /// The id of the run. `None` for a change of the thread from outside its runs.
    pub run: Option<Uuid>,
    /// The path from the root graph to the graph of the event, with one `node:task id` for each level. Empty for the
    /// root graph.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub namespace: Vec<String>,
    /// The content.
    pub body: LogEvent,
}

impl NewEvent {
    /// Creates an event of the root graph.
    pub fn new(run: impl Into<Option<Uuid>>, body: LogEvent) -> Self {
        Self { run: run.into(), namespace: Vec::new(), body }
    }

    /// Sets the namespace, for an event of a subgraph.
    #[must_use]
    pub fn namespace(mut self, namespace: Vec<String>) -> Self {
        self.namespace = namespace;
        self
    }

    /// Returns the name of the stream mode. See [`LogEvent::mode`].
    pub const fn mode(&self) -> &'static str {
        self.body.mode()
    }

    /// Returns the estimated size in bytes.
    pub fn bytes(&self) -> u64 {
        let namespace: usize = self.namespace.iter().map(String::len).sum();
        64 + namespace as u64 + self.body.bytes()
    }
}

/// A stored event of a thread's log.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct EventRow {
    /// The number of the event. Numbers start at 1 and increase within a thread.
    pub number: u64,
    /// The time at which the event was appended.
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
    /// The number of the last event that the caller knows. The query returns only events with greater numbers.
    pub after: u64,
    /// The id of a run, to select only the events of this run. `None` selects all events of the thread.
    pub run: Option<Uuid>,
    /// The maximum number of events.
    pub limit: usize,
}

impl EventQuery {
    /// Creates a query for the events of a thread with numbers greater than `after`. The query returns at most 1,000
    /// events.
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

/// A page of events.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct EventPage {
    /// The events, ordered by number.
    pub events: Vec<EventRow>,
    /// The number of the thread's latest event, whichever run it belongs to. 0 if there are no events.
    pub last: u64,
    /// The number of the last event that pruning or the size limit of the log has deleted. All earlier events were
    /// deleted, too. 0 if no event was deleted.
    pub gone: u64,
    /// The creation time of the thread. If it differs between two pages, the thread was deleted, and another thread has
    /// its id.
    pub created: SystemTime,
}

impl EventPage {
    /// Creates a page of events. `thread` is the row of the thread to which the events belong. Read the row after the
    /// events or in the same transaction. An older row does not show that events were deleted before the page was read.
    pub fn new(events: Vec<EventRow>, thread: &ThreadRow) -> Self {
        let last = events.last().map_or(0, |event| event.number).max(thread.last_event);
        Self { events, last, gone: thread.gone_events, created: thread.created }
    }
}
