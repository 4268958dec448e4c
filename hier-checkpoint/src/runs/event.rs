//! The log of a thread: what was told of its runs.

use std::time::SystemTime;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use uuid::Uuid;

use super::thread::ThreadRow;

/// How many bytes of events a thread keeps, unless the store says otherwise: when there are more, the oldest go.
pub const LOG_BYTES: u64 = 32 << 20;

/// Names of events that the store itself appends. The others are the names of stream modes.
pub mod event_mode {
    /// A run was claimed: `{"attempt": n}`. Of several attempts, what follows the last start is what counts.
    pub const START: &str = "start";
    /// A run has ended, and this is the last event of it: `{"status": …, "error": …}`. Each run has exactly one, however it
    /// ended.
    pub const END: &str = "end";
}

/// An event that is to be appended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct NewEvent {
    /// The run that it tells of.
    pub run: Option<Uuid>,
    /// The stream mode, or one of [`event_mode`].
    pub mode: String,
    /// Where it comes from: `node:task id` for each graph on the way; empty for the root.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub namespace: Vec<String>,
    /// The node, where the mode has one and the payload does not say it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// The payload.
    pub data: Value,
}

impl NewEvent {
    /// An event of a root graph.
    pub fn new(run: impl Into<Option<Uuid>>, mode: impl Into<String>, data: Value) -> Self {
        Self { run: run.into(), mode: mode.into(), namespace: Vec::new(), node: None, data }
    }

    /// The same of a subgraph.
    #[must_use]
    pub fn namespace(mut self, namespace: Vec<String>) -> Self {
        self.namespace = namespace;
        self
    }

    /// The same of a node.
    #[must_use]
    pub fn node(mut self, node: impl Into<String>) -> Self {
        self.node = Some(node.into());
        self
    }

    /// About how many bytes it takes.
    pub fn bytes(&self) -> u64 {
        let texts = self.mode.len() + self.node.as_ref().map_or(0, String::len);
        let namespace: usize = self.namespace.iter().map(String::len).sum();
        (64 + texts + namespace + json_bytes(&self.data)) as u64
    }
}

fn json_bytes(value: &Value) -> usize {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => 8,
        Value::String(text) => text.len() + 2,
        Value::Array(items) => 2 + items.iter().map(json_bytes).sum::<usize>(),
        Value::Object(fields) => {
            2 + fields.iter().map(|(name, value)| name.len() + 4 + json_bytes(value)).sum::<usize>()
        }
    }
}

/// An event of a thread's log.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct EventRow {
    /// Its number: from 1 on, greater than that of every event of the thread before it.
    pub number: u64,
    /// When it was appended.
    pub at: SystemTime,
    /// What it tells.
    pub event: NewEvent,
}

impl EventRow {
    /// An event as it is stored.
    pub const fn new(number: u64, at: SystemTime, event: NewEvent) -> Self {
        Self { number, at, event }
    }
}

/// Which events to read.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct EventQuery {
    /// Of this thread.
    pub thread: String,
    /// Those with a greater number.
    pub after: u64,
    /// Those of this run.
    pub run: Option<Uuid>,
    /// At most so many.
    pub limit: usize,
}

impl EventQuery {
    /// The events of a thread after this number, in pages of 1,000.
    pub fn after(thread: impl Into<String>, after: u64) -> Self {
        Self { thread: thread.into(), after, run: None, limit: 1_000 }
    }

    /// Only those of this run.
    #[must_use]
    pub fn run(mut self, run: Uuid) -> Self {
        self.run = Some(run);
        self
    }

    /// At most so many.
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
    /// The number of the thread's last event, of whatever run; 0 if there never was one.
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
