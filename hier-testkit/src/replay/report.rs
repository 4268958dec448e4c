//! What has changed.

use std::fmt;

use serde_json::Value;

/// What came of a [`Replay`](super::Replay).
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct ReplayReport {
    /// The turns that were run again, by thread; of a thread that cannot be read, one that says so.
    pub turns: Vec<ReplayedTurn>,
}

/// A turn of a stored thread that was run again.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct ReplayedTurn {
    /// The thread.
    pub thread: String,
    /// Which of its turns, from 0: each input begins one.
    pub turn: usize,
    /// What is not as it was.
    pub changes: Vec<Change>,
}

/// Something that is not as it was recorded.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Change {
    /// The thread cannot be read any more.
    Unreadable(String),
    /// The run failed.
    Failed(String),
    /// From this step on, counted from 1, other nodes ran.
    Nodes {
        /// The step.
        step: usize,
        /// The nodes that ran then, by name.
        recorded: Vec<String>,
        /// The nodes that ran now.
        now: Vec<String>,
    },
    /// A channel has another value at the end of the turn.
    Channel {
        /// The channel.
        name: String,
        /// Its value then; none if it had none.
        recorded: Option<Value>,
        /// Its value now.
        now: Option<Value>,
    },
    /// The turn ended otherwise.
    Ended {
        /// How it ended then.
        recorded: String,
        /// How it ended now.
        now: String,
    },
    /// The turn was changed from outside, by `update_state` or a fork, and cannot be run again.
    NotReplayed,
}

impl ReplayReport {
    /// Whether there was something to run again, and all of it came out as recorded.
    pub fn is_unchanged(&self) -> bool {
        !self.turns.is_empty() && self.turns.iter().all(ReplayedTurn::is_unchanged)
    }

    /// The turns that came out otherwise.
    pub fn changed(&self) -> impl Iterator<Item = &ReplayedTurn> {
        self.turns.iter().filter(|turn| !turn.is_unchanged())
    }
}

impl ReplayedTurn {
    /// Whether it came out as recorded. What could not be run again is no change.
    pub fn is_unchanged(&self) -> bool {
        self.changes.iter().all(|change| *change == Change::NotReplayed)
    }
}

/// A line for each change, and one with the count.
impl fmt::Display for ReplayReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for turn in &self.turns {
            for change in &turn.changes {
                writeln!(f, "thread `{}`, turn {}: {change}", turn.thread, turn.turn)?;
            }
        }
        write!(f, "{} of {} turns came out otherwise", self.changed().count(), self.turns.len())
    }
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = |value: &Option<Value>| value.as_ref().map_or_else(|| "nothing".to_owned(), short);
        match self {
            Self::Unreadable(error) => write!(f, "it cannot be read: {error}"),
            Self::Failed(error) => write!(f, "it fails: {error}"),
            Self::Nodes { step, recorded, now } => {
                write!(f, "step {step} runs [{}], it ran [{}]", now.join(", "), recorded.join(", "))
            }
            Self::Channel { name, recorded, now } => {
                write!(f, "channel `{name}` is {}, it was {}", shown(now), shown(recorded))
            }
            Self::Ended { recorded, now } => write!(f, "it {now}, it {recorded} then"),
            Self::NotReplayed => write!(f, "not run again: it was changed from outside"),
        }
    }
}

/// The beginning of a value's JSON.
fn short(value: &Value) -> String {
    let text = value.to_string();
    match text.char_indices().nth(160) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}
