//! Claims for any database: waits for a thread to be released.

use std::time::Duration;

use crate::checkpoint::{Lease, SaverError};
use tokio::sync::Notify;
use tokio::time::Instant;

/// A lease that the caller has not received yet. Dropping this value releases the lease, for example if the caller
/// drops the future of the claim.
pub struct Claimed<F: FnOnce(Lease)>(Option<(Lease, F)>);

impl<F: FnOnce(Lease)> Claimed<F> {
    pub fn new(lease: Lease, release: F) -> Self {
        Self(Some((lease, release)))
    }

    /// Returns the lease. Dropping this value then no longer releases the lease.
    pub fn take(mut self) -> Option<Lease> {
        self.0.take().map(|(lease, _)| lease)
    }
}

impl<F: FnOnce(Lease)> Drop for Claimed<F> {
    fn drop(&mut self) {
        if let Some((lease, release)) = self.0.take() {
            release(lease);
        }
    }
}

/// Calls `attempt` until it claims the thread, for at most the time `at_most`. `released` wakes the function when this
/// process releases a thread. Other processes send no notification, so the function also retries after each `pause`.
pub async fn wait_for<A: Future<Output = Result<Lease, SaverError>>>(
    released: &Notify,
    pause: Duration,
    at_most: Duration,
    attempt: impl Fn() -> A,
) -> Result<Lease, SaverError> {
    // A duration that overflows counts as unlimited.
    let end = Instant::now().checked_add(at_most);
    loop {
        let released = released.notified();
        tokio::pin!(released);
        // Enabled before the attempt, so that a release between the attempt and the wait is not missed.
        released.as_mut().enable();
        let busy = match attempt().await {
            Err(busy @ SaverError::Busy { .. }) => busy,
            result => return result,
        };
        if end.is_some_and(|end| Instant::now() >= end) {
            return Err(busy);
        }
        let again = Instant::now() + pause;
        let _ = tokio::time::timeout_at(end.map_or(again, |end| end.min(again)), released).await;
    }
}
