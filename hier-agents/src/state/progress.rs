//! How far the agents of a hierarchy are.

use std::sync::Arc;

use imbl::OrdMap;
use serde::{Deserialize, Serialize};

/// How often an agent was called, and how many of these calls have ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Calls {
    /// How often it was called.
    pub scheduled: u64,
    /// How many of these calls have ended.
    pub finished: u64,
}

/// How far the agents of a hierarchy are, by their names. Copies share the entries.
///
/// As a channel: what is written is merged by agent; the entry with the higher number of calls, scheduled or finished,
/// stays. Agents that are called as subagents are counted by the hierarchy itself.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Progress(OrdMap<Arc<str>, Calls>);

impl Progress {
    /// Nothing was called.
    pub fn new() -> Self {
        Self::default()
    }

    /// The calls of this agent; zero if it was never called.
    pub fn get(&self, agent: &str) -> Calls {
        self.0.get(agent).copied().unwrap_or_default()
    }

    /// The calls of all agents, in the order of their names.
    pub fn iter(&self) -> impl Iterator<Item = (&str, Calls)> {
        self.0.iter().map(|(agent, calls)| (&**agent, *calls))
    }

    /// Whether nothing was called.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// The reducer of `progress`.
pub(crate) fn merge(progress: &mut Progress, new: Progress) {
    for (agent, new) in new.0 {
        let old = progress.0.entry(agent).or_default();
        if new.scheduled > old.scheduled || new.finished > old.finished {
            *old = new;
        }
    }
}

impl<T: Into<Arc<str>>> FromIterator<(T, Calls)> for Progress {
    fn from_iter<I: IntoIterator<Item = (T, Calls)>>(calls: I) -> Self {
        Self(calls.into_iter().map(|(agent, calls)| (agent.into(), calls)).collect())
    }
}

impl<T: Into<Arc<str>>, const N: usize> From<[(T, Calls); N]> for Progress {
    fn from(calls: [(T, Calls); N]) -> Self {
        calls.into_iter().collect()
    }
}
