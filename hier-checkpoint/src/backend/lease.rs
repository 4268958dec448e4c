//! Claims for any database: waits for a thread to be released.

use std::time::Duration;

use crate::checkpoint::{Lease, SaverError};
use tokio::sync::Notify;
use tokio::time::Instant;

/// A granted lease that the caller of the claim has not received yet. If the caller drops the future of the claim, this
/// value is dropped and releases the lease.
pub struct Claimed<F: FnOnce(Lease)>(Option<(Lease, F)>);

impl<F: FnOnce(Lease)> Claimed<F> {
    pub fn new(lease: Lease, release: F) -> Self {
        Self(Some((lease, release)))
    }

    /// Returns the lease without releasing it. The result is always `Some`.
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

/// Calls `attempt` until its result is not [`SaverError::Busy`], and returns this result. After the time `at_most`,
/// returns the last `Busy` error. Between two calls, waits for a notification from `released`, but at most for `pause`.
/// `released` notifies when this process releases a thread. Other processes send no notification.
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
