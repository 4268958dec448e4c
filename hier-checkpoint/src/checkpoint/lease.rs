//! One writer a thread: claims and leases.

use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::background;
use super::error::SaverError;
use super::limits::{LONGEST_NAME, name_bytes};

const LASTS: Duration = Duration::from_secs(30);

/// The policy for a thread that is already being run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum WhenRunning {
    /// The new run takes the thread over. The other one is refused its next commit
    /// ([`SaverError::Superseded`](super::SaverError::Superseded)) and changes nothing any more.
    ///
    /// The default of runs that begin with a new input or continue with `()`.
    #[default]
    TakeOver,
    /// The new run fails ([`SaverError::Busy`](super::SaverError::Busy)). A process that died holds its threads until
    /// their leases have run out.
    ///
    /// The default of answers, commands and updates of the state.
    Reject,
    /// The new run waits until the thread is free, at most this long; then it fails.
    Wait(Duration),
}

/// A claim on a thread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claim {
    /// The claimant, as readable text.
    pub holder: String,
    /// The policy for a thread that another run holds.
    pub when_running: WhenRunning,
    /// The time until the lease expires, unless it is renewed.
    pub lasts: Duration,
    /// The time that the thread lives after its last commit. None for ever. Each claim replaces it.
    pub time_to_live: Option<Duration>,
}

impl Default for Claim {
    fn default() -> Self {
        Self {
            holder: format!("process {}", std::process::id()),
            when_running: WhenRunning::default(),
            lasts: LASTS,
            time_to_live: None,
        }
    }
}

/// The right to write a thread, until another claim takes it over.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Lease {
    /// The thread.
    pub thread: Arc<str>,
    /// The fencing token. It is greater than those of all earlier claims.
    pub token: u64,
    /// The time until the lease expires, unless it is renewed.
    pub lasts: Duration,
    /// True if the thread was claimed while a run that was advancing it had not ended ([`DueChange::Driven`](super::DueChange::Driven)).
    /// The holder of this lease must then set the next due time when it finishes.
    pub driven: bool,
}

impl Lease {
    /// Creates the lease of a granted claim on this thread.
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

/// Returns an error if a thread cannot have this name. Savers call this before they store a thread that may be new.
pub fn check_thread(name: &str) -> Result<(), SaverError> {
    let bytes = name_bytes(name);
    if bytes <= LONGEST_NAME {
        return Ok(());
    }
    let begin: String = name.chars().take(40).collect();
    Err(SaverError::Invalid(format!(
        "the name of thread `{begin}…` has {bytes} bytes: give one of at most {LONGEST_NAME} (a NUL or a backslash counts twice)"
    )))
}

/// Returns an error if a user cannot give a thread this name. Names of [background threads](super::background) belong to
/// their runs.
pub fn check_new_thread(name: &str) -> Result<(), SaverError> {
    check_thread(name)?;
    let Some(outer) = background::outer_of(name) else { return Ok(()) };
    Err(SaverError::Invalid(format!(
        "the name of thread `{name}` is that of a background run of thread `{outer}`, and the thread would be deleted with \
         that one: give a name without `/background/`"
    )))
}
