//! One writer a thread: claims and leases.

use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::background;
use super::error::SaverError;
use super::limits::{LONGEST_NAME, name_bytes};

const LASTS: Duration = Duration::from_secs(30);

/// The policy for a run on a thread that another run holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum WhenRunning {
    /// The new run takes over the thread. The other run's next commit fails with
    /// [`SaverError::Superseded`](super::SaverError::Superseded), and it changes nothing more.
    ///
    /// The default for a new input and for `()`.
    #[default]
    TakeOver,
    /// The new run fails with [`SaverError::Busy`](super::SaverError::Busy). A process that was killed holds its
    /// threads until their leases expire.
    ///
    /// The default for answers, commands and state updates.
    Reject,
    /// The new run waits until the thread is free. It fails after this duration.
    Wait(Duration),
}

/// A request for the lease of a thread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claim {
    /// The name of the claimant, for error messages.
    pub holder: String,
    /// The policy for a thread that another run holds.
    pub when_running: WhenRunning,
    /// The time until the lease expires if it is not renewed.
    pub lasts: Duration,
    /// The time that the thread is kept after its last commit. `None` keeps it forever. Each claim replaces it.
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

/// The exclusive right to write to a thread, until another claim takes it over.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Lease {
    /// The id of the thread.
    pub thread: Arc<str>,
    /// The fencing token, greater than those of all earlier claims on the thread.
    pub token: u64,
    /// The time until the lease expires if it is not renewed.
    pub lasts: Duration,
    /// True if an earlier run did not finish advancing the thread ([`DueChange::Driven`](super::DueChange::Driven)).
    /// The holder must then set the next due time when it ends.
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

/// Checks the name of a thread. Savers call this before they store a thread that may be new.
///
/// # Errors
///
/// Fails if a thread cannot have this name.
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

/// Returns an error if a user cannot give a new thread this name. Names of [background threads](super::background)
/// belong to their runs.
pub fn check_new_thread(name: &str) -> Result<(), SaverError> {
    check_thread(name)?;
    if name.is_empty() {
        return Err(SaverError::Invalid(
            "the name of a thread is empty: give one with at least one character".to_owned(),
        ));
    }
    let Some(outer) = background::outer_of(name) else { return Ok(()) };
    Err(SaverError::Invalid(format!(
        "the name of thread `{name}` is that of a background run of thread `{outer}`, and the thread would be deleted with \
         that one: give a name without `/background/`"
    )))
}
