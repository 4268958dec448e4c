//! A clock that a test moves.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// A clock that a test moves: the machine's, and what it was moved on by. A clone is another handle to the same clock.
///
/// It is for what waits across processes: [`Run::sleep`](hier_core::Run::sleep), the deadlines of questions, sweepers. What
/// waits within a process (retries, timeouts, a model that takes long) goes by tokio's clock, which
/// `#[tokio::test(start_paused = true)]` moves.
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
    /// By how many milliseconds it was moved.
    moved: Arc<AtomicU64>,
}

impl Clock {
    /// A clock that shows the machine's time until it is moved.
    pub fn new() -> Self {
        Self::default()
    }

    /// The time that it shows, rounded up to a whole millisecond, as the times are that threads wait for.
    pub fn now(&self) -> SystemTime {
        let now = SystemTime::now();
        let whole = now.duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos().div_ceil(1_000_000);
        let moved = self.moved.load(Ordering::SeqCst);
        let shown = Duration::from_millis(u64::try_from(whole).unwrap_or(u64::MAX).saturating_add(moved));
        UNIX_EPOCH.checked_add(shown).unwrap_or(now)
    }

    /// Moves it on, to the next whole millisecond.
    pub fn advance(&self, by: Duration) {
        let by = u64::try_from(by.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX);
        let more = |moved: u64| Some(moved.saturating_add(by));
        // It always changes it.
        let _ = self.moved.fetch_update(Ordering::SeqCst, Ordering::SeqCst, more);
    }

    /// Moves it on to this time; a time that has passed changes nothing.
    pub fn advance_to(&self, time: SystemTime) {
        if let Ok(left) = time.duration_since(self.now()) {
            self.advance(left);
        }
    }
}
