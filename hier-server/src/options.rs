//! What a server allows.

use std::time::Duration;

/// Limits of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Limits {
    /// The largest body, in bytes.
    pub(crate) body: usize,
    /// How long an answer may take that is neither a stream nor waits for a run.
    pub(crate) time: Duration,
    /// How many requests are answered at once, streams included.
    pub(crate) requests: usize,
    /// How many requests a user, or an address if nobody is asked who they are, may send a second on average. Unless it was
    /// given, programs on this machine that are not asked who they are may send any number.
    pub(crate) rate: u32,
    /// Whether it was given.
    pub(crate) rate_is_given: bool,
    /// How many results a search returns at most.
    pub(crate) page: usize,
    /// How long events and ended runs are kept; as long as their thread if none.
    pub(crate) history: Option<Duration>,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            body: 16 << 20,
            time: Duration::from_mins(1),
            requests: 20_000,
            rate: 1_000,
            rate_is_given: false,
            page: 1_000,
            history: None,
        }
    }
}
