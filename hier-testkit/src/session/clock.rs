use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// A clock that a test can move forward. It otherwise advances with the system clock. Clones share the time.
///
/// In a [`Session`](crate::Session) with this clock, [`Run::sleep`](hier_core::Run::sleep) and the deadlines of
/// questions and signals follow the clock. Retries and timeouts follow tokio's clock instead, which
/// `#[tokio::test(start_paused = true)]` pauses.
///
/// ```
/// use std::time::Duration;
/// use hier_testkit::Clock;
///
/// let clock = Clock::new();
/// let before = clock.now();
/// clock.advance(Duration::from_hours(24));
/// assert!(clock.now() >= before + Duration::from_hours(24));
/// ```
#[derive(Clone, Debug, Default)]
pub struct Clock {
    /// The time by which the clock is ahead of the system clock, in milliseconds.
    moved: Arc<AtomicU64>,
}

impl Clock {
    /// Creates a clock with the time of the system clock.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns the time of the clock, rounded up to a millisecond. Savers round the due times of threads in the same
    /// way.
    pub fn now(&self) -> SystemTime {
        let now = SystemTime::now();
        let whole = now.duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos().div_ceil(1_000_000);
        let moved = self.moved.load(Ordering::SeqCst);
        let shown = Duration::from_millis(u64::try_from(whole).unwrap_or(u64::MAX).saturating_add(moved));
        UNIX_EPOCH.checked_add(shown).unwrap_or(now)
    }

    /// Moves the clock forward by this duration, rounded up to a millisecond.
    pub fn advance(&self, by: Duration) {
        let by = u64::try_from(by.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX);
        let more = |moved: u64| Some(moved.saturating_add(by));
        // The closure always returns `Some`.
        let _ = self.moved.fetch_update(Ordering::SeqCst, Ordering::SeqCst, more);
    }

    /// Moves the clock forward to this time. Has no effect for a time in the past.
    pub fn advance_to(&self, time: SystemTime) {
        if let Ok(left) = time.duration_since(self.now()) {
            self.advance(left);
        }
    }
}
