//! Reports of replays.

use std::fmt;

use serde_json::Value;

/// The result of a [`Replay`](super::Replay).
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct ReplayReport {
    /// The replayed turns by thread. An unreadable thread has a single entry.
    pub turns: Vec<ReplayedTurn>,
}

/// A turn of a stored thread that was run again.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct ReplayedTurn {
    /// The thread.
    pub thread: String,
    /// The index of the turn in its thread, from 0. Each input starts a turn.
    pub turn: usize,
    /// The differences from the record.
    pub changes: Vec<ReplayChange>,
}

/// A difference from the record.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum ReplayChange {
    /// The current code cannot read the thread.
    Unreadable(String),
    /// The run failed.
    Failed(String),
    /// Other nodes ran in this step.
    Nodes {
        /// The first step that differs, from 1.
        step: usize,
        /// The recorded nodes, by name.
        recorded: Vec<String>,
        /// The nodes of the replay.
        now: Vec<String>,
    },
    /// A channel has another value at the end of the turn.
    Channel {
        /// The channel.
        name: String,
        /// The recorded value, if any.
        recorded: Option<Value>,
        /// The value of the replay, if any.
        now: Option<Value>,
    },
    /// The turn ended differently.
    Ended {
        /// The recorded end.
        recorded: String,
        /// The end of the replay.
        now: String,
    },
    /// `update_state` or a fork changed the turn, so it cannot be replayed.
    NotReplayed,
}

impl ReplayReport {
    /// Returns true if at least one turn was replayed and none has changed.
    pub fn is_unchanged(&self) -> bool {
        !self.turns.is_empty() && self.turns.iter().all(ReplayedTurn::is_unchanged)
    }

    /// Returns the turns with changes.
    pub fn changed(&self) -> impl Iterator<Item = &ReplayedTurn> {
        self.turns.iter().filter(|turn| !turn.is_unchanged())
    }
}

impl ReplayedTurn {
    /// Returns true if the turn has no changes. A turn that cannot be replayed counts as unchanged.
    pub fn is_unchanged(&self) -> bool {
        self.changes.iter().all(|change| *change == ReplayChange::NotReplayed)
    }
}

/// One line for each change, and one with the count.
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
                write!(f, "step {step} ran [{}] instead of [{}]", now.join(", "), recorded.join(", "))
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
