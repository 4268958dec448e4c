//! The progress of the agents of a hierarchy.

use std::sync::Arc;

use imbl::OrdMap;
use serde::{Deserialize, Serialize};

/// The number of times that supervisors have called an agent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallCounts {
    /// The number of calls that have started, including those that have ended.
    pub scheduled: u64,
    /// The number of calls that have ended.
    pub finished: u64,
}

/// The number of times that each subagent of a hierarchy was called, by the name of the subagent. Clones are cheap.
///
/// The channel `progress` has this type. A supervisor writes the channel when it calls a subagent and when the call
/// ends. A write never lowers a count. If the stored count is higher than the written count, the stored count stays.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Progress(OrdMap<Arc<str>, CallCounts>);

impl Progress {
    /// Creates an empty map.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns the number of times that `agent` was called. Both counts are 0 if it was not called.
    pub fn get(&self, agent: &str) -> CallCounts {
        self.0.get(agent).copied().unwrap_or_default()
    }

    /// Iterates over the agents in the order of their names.
    pub fn iter(&self) -> impl Iterator<Item = (&str, CallCounts)> {
        self.0.iter().map(|(agent, calls)| (&**agent, *calls))
    }

    /// Returns true if the map contains no agent.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

pub(crate) fn merge(progress: &mut Progress, new: Progress) {
    for (agent, new) in new.0 {
        let counts = progress.0.entry(agent).or_default();
        counts.scheduled = counts.scheduled.max(new.scheduled);
        counts.finished = counts.finished.max(new.finished);
    }
}

from_pairs!(Progress, CallCounts);
