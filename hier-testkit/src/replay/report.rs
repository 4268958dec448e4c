use std::fmt;

use serde_json::Value;

/// The result of a [`Replay`](super::Replay).
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct ReplayReport {
    /// The turns, grouped by thread. A thread that cannot be read has a single entry.
    pub turns: Vec<ReplayedTurn>,
}

/// A turn of a stored thread, and its differences in the replay.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct ReplayedTurn {
    /// The id of the thread.
    pub thread: String,
    /// The index of the turn in its thread. The first turn has the index 0.
    pub turn: usize,
    /// The differences from the recorded turn.
    pub changes: Vec<ReplayChange>,
}

/// A difference from the recorded turn.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum ReplayChange {
    /// The current code cannot read the thread.
    Unreadable(String),
    /// The turn failed in the replay.
    Failed(String),
    /// In one superstep, other nodes ran than in the recorded turn. The report contains only the first such superstep
    /// of a turn.
    Nodes {
        /// The number of the superstep in the turn. The first superstep has the number 1.
        step: usize,
        /// The names of the nodes that ran in the recorded turn.
        recorded: Vec<String>,
        /// The names of the nodes that ran in the replay.
        now: Vec<String>,
    },
    /// At the end of the turn, a channel had another value than in the recorded turn.
    Channel {
        /// The name of the channel.
        name: String,
        /// The recorded value, or `None` if the channel had none.
        recorded: Option<Value>,
        /// The value in the replay, or `None` if the channel had none.
        now: Option<Value>,
    },
    /// The turn ended in a different way.
    Ended {
        /// A description of the way in which the recorded turn ended.
        recorded: String,
        /// A description of the way in which the turn ended in the replay.
        now: String,
    },
    /// The replay skipped the turn, because `update_state` or a fork had changed it.
    NotReplayed,
}

impl ReplayReport {
    /// Returns true if the report contains at least one turn and every turn is [unchanged](ReplayedTurn::is_unchanged).
    pub fn is_unchanged(&self) -> bool {
        !self.turns.is_empty() && self.turns.iter().all(ReplayedTurn::is_unchanged)
    }

    /// Returns the turns that are not [unchanged](ReplayedTurn::is_unchanged).
    pub fn changed(&self) -> impl Iterator<Item = &ReplayedTurn> {
        self.turns.iter().filter(|turn| !turn.is_unchanged())
    }
}

impl ReplayedTurn {
    /// Returns true if the replay did not differ from the recorded turn. Also returns true for a turn that the replay
    /// skipped.
    pub fn is_unchanged(&self) -> bool {
        self.changes.iter().all(|change| *change == ReplayChange::NotReplayed)
    }
}

/// Prints one line for each change, and the number of turns.
impl fmt::Display for ReplayReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for turn in &self.turns {
            for change in &turn.changes {
                writeln!(f, "thread `{}`, turn {}: {change}", turn.thread, turn.turn)?;
            }
        }
        write!(f, "{} of {} turns have changed", self.changed().count(), self.turns.len())
    }
}

impl fmt::Display for ReplayChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = |value: &Option<Value>| value.as_ref().map_or_else(|| "nothing".to_owned(), abbreviated);
        match self {
            Self::Unreadable(error) => write!(f, "unreadable: {error}"),
            Self::Failed(error) => write!(f, "failed: {error}"),
            Self::Nodes { step, recorded, now } => {
                write!(f, "superstep {step} ran [{}] instead of [{}]", now.join(", "), recorded.join(", "))
            }
            Self::Channel { name, recorded, now } => {
                write!(f, "channel `{name}` is {} instead of {}", shown(now), shown(recorded))
            }
            Self::Ended { recorded, now } => write!(f, "the turn {now}; the recorded turn {recorded}"),
            Self::NotReplayed => write!(f, "not replayed: the turn was changed by `update_state` or a fork"),
        }
    }
}

fn abbreviated(value: &Value) -> String {
    let text = value.to_string();
    match text.char_indices().nth(160) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}
