//! The progress of the agents of a hierarchy.

use std::sync::Arc;

use imbl::OrdMap;
use serde::{Deserialize, Serialize};

/// The number of calls of an agent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallCounts {
    /// The number of calls that have started or ended.
    pub scheduled: u64,
    /// The number of calls that have ended.
    pub finished: u64,
}

/// The number of calls of each agent in a hierarchy, by name. Clones are cheap.
///
/// A channel of this type keeps, for each agent, the entry with the higher counts. The hierarchy writes the channel
/// when it calls a subagent and when the call ends.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Progress(OrdMap<Arc<str>, CallCounts>);

impl Progress {
    /// Creates an empty map.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns the number of calls of an agent.
    pub fn get(&self, agent: &str) -> CallCounts {
        self.0.get(agent).copied().unwrap_or_default()
    }

    /// Iterates over the agents in the order of their names.
    pub fn iter(&self) -> impl Iterator<Item = (&str, CallCounts)> {
        self.0.iter().map(|(agent, calls)| (&**agent, *calls))
    }

    /// Returns true if no agent was called.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

pub(crate) fn merge(progress: &mut Progress, new: Progress) {
    for (agent, new) in new.0 {
        let old = progress.0.entry(agent).or_default();
        if new.scheduled > old.scheduled || new.finished > old.finished {
            *old = new;
        }
    }
}

from_pairs!(Progress, CallCounts);
