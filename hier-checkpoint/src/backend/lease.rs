//! Claims for any database: waits for a thread to be released.

use std::time::Duration;

use crate::checkpoint::{Lease, SaverError};
use tokio::sync::Notify;
use tokio::time::Instant;

/// A lease on its way to its caller. If the call is dropped meanwhile, the lease is released.
pub struct Claimed<F: FnOnce(Lease)>(Option<(Lease, F)>);

impl<F: FnOnce(Lease)> Claimed<F> {
    pub fn new(lease: Lease, release: F) -> Self {
        Self(Some((lease, release)))
    }

    /// Gives the lease to the caller.
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

/// Tries to claim a thread until it is free, at most this long. `released` wakes the caller when this process releases a
/// thread. Other processes send no notification, so the claim is also retried after each `pause`.
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
        // Before the attempt, so that a release between the two is not missed.
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
