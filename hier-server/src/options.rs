//! Limits of a server.

use std::time::Duration;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Limits {
    /// Maximum size of a body, in bytes.
    pub(crate) body: usize,
    /// Time limit of a response that is neither a stream nor waits for a run.
    pub(crate) time: Duration,
    /// Number of requests that are served at once, streams included.
    pub(crate) requests: usize,
    /// Requests per second of each user, or of each address if there are no users. The default does not apply to programs on this machine
    /// if there are no users.
    pub(crate) rate: u32,
    /// True if the caller has set the rate.
    pub(crate) rate_is_set: bool,
    /// Maximum number of results of a search.
    pub(crate) page: usize,
    /// Time for which events and ended runs are kept. None for the lifetime of their thread.
    pub(crate) history: Option<Duration>,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            body: 16 << 20,
            time: Duration::from_mins(1),
            requests: 20_000,
            rate: 1_000,
            rate_is_set: false,
            page: 1_000,
            history: None,
        }
    }
}
