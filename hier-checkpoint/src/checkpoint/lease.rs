//! Claims and leases, so that a thread has one writer at a time.

use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::background;
use super::error::SaverError;
use super::limits::{LONGEST_NAME, name_bytes};

const LASTS: Duration = Duration::from_secs(30);

/// The action of a new run if another run holds the thread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum WhenRunning {
    /// The new run takes over the thread. The next commit of the other run fails with
    /// [`SaverError::Superseded`](super::SaverError::Superseded), so the other run can no longer change the thread.
    ///
    /// This is the default for a run with a new input, and for a run with the input `()`, which continues the thread.
    #[default]
    TakeOver,
    /// The new run fails with [`SaverError::Busy`](super::SaverError::Busy). If the process of the other run was
    /// killed, new runs fail until the lease of the killed run expires.
    ///
    /// This is the default for answers, other commands and state updates.
    Reject,
    /// The new run waits until the thread is free. If the thread is still not free after this duration, the run fails
    /// with [`SaverError::Busy`](super::SaverError::Busy).
    Wait(Duration),
}

/// A request for the lease of a thread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claim {
    /// The name of the run that claims the thread. Error messages contain this name.
    pub holder: String,
    /// The action if another run holds the thread.
    pub when_running: WhenRunning,
    /// The time after which the lease expires if its holder does not renew it.
    pub lasts: Duration,
    /// The time for which the thread is kept after its last claim or commit. `None` keeps the thread forever. Each
    /// claim replaces the value of the previous claim.
    pub time_to_live: Option<Duration>,
    /// If true, the time to live of the previous claim stays in effect, and savers ignore `time_to_live`. Defaults to
    /// false.
    pub keeps_time_to_live: bool,
}

impl Default for Claim {
    fn default() -> Self {
        Self {
            holder: format!("process {}", std::process::id()),
            when_running: WhenRunning::default(),
            lasts: LASTS,
            time_to_live: None,
            keeps_time_to_live: false,
        }
    }
}

/// The exclusive right to write to a thread. A lease ends when its holder releases it, or when another claim takes over
/// the thread. Any claim can take over a thread whose lease has expired.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Lease {
    /// The id of the thread.
    pub thread: Arc<str>,
    /// The fencing token. It is greater than the tokens of all earlier claims on the thread, and savers reject writes
    /// with an older token.
    pub token: u64,
    /// The time after which the lease expires if its holder does not renew it.
    pub lasts: Duration,
    /// True if an earlier run on the thread did not record its end ([`DueChange::Driven`](super::DueChange::Driven)).
    /// The holder must then set the next due time when its own run ends.
    pub driven: bool,
}

impl Lease {
    /// Creates the lease for a granted claim.
    pub fn new(thread: impl Into<Arc<str>>, token: u64, lasts: Duration) -> Self {
        Self { thread: thread.into(), token, lasts, driven: false }
    }

    /// Sets [`Self::driven`].
    #[must_use]
    pub fn driven(mut self, driven: bool) -> Self {
        self.driven = driven;
        self
    }
}

/// Checks the id of a thread. Savers call this function before they store a thread that may be new.
///
/// # Errors
///
/// Fails with [`SaverError::Invalid`] if the id is empty or longer than [`LONGEST_NAME`].
pub fn check_thread(name: &str) -> Result<(), SaverError> {
    if name.is_empty() {
        return Err(SaverError::Invalid(
            "the name of a thread is empty: give one with at least one character".to_owned(),
        ));
    }
    let bytes = name_bytes(name);
    if bytes <= LONGEST_NAME {
        return Ok(());
    }
    let begin: String = name.chars().take(40).collect();
    Err(SaverError::Invalid(format!(
        "the name of thread `{begin}…` has {bytes} bytes: give one of at most {LONGEST_NAME} (U+0000 and U+0001 count twice)"
    )))
}

/// Checks the id that a user gives to a new thread.
///
/// # Errors
///
/// Fails for an id that [`check_thread`] rejects, and for an id that is reserved for the threads of
/// [background subagents](super::background).
pub fn check_new_thread(name: &str) -> Result<(), SaverError> {
    check_thread(name)?;
    let Some(outer) = background::outer_of(name) else { return Ok(()) };
    Err(SaverError::Invalid(format!(
        "the name of thread `{name}` is that of a background run of thread `{outer}`, and the thread would be deleted with \
         that one: give a name without `/background/`"
    )))
}
