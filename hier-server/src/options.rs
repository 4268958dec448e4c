//! Limits of a server.

use std::time::Duration;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Limits {
    /// Maximum size of a body, in bytes.
    pub(crate) body: usize,
    /// Time within which a response must start.
    pub(crate) time: Duration,
    /// Maximum number of requests at the same time, including open streams.
    pub(crate) requests: usize,
    /// Maximum number of requests per second of each user, or of each address for requests without a user. The default
    /// does not apply to requests from this machine without a user.
    pub(crate) rate: u32,
    pub(crate) rate_is_set: bool,
    /// Maximum number of results of a search.
    pub(crate) page: usize,
    /// Age at which events and ended runs are deleted. `None` if they are deleted with their thread.
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
