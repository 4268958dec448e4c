//! Signs of life of a node with an `idle_timeout`.

use std::future::Future;
use std::sync::Mutex;
use std::time::Duration;

use tokio::time::Instant;

use crate::config::lock;

/// When a node last gave a sign of life.
pub(crate) struct Heartbeat(Mutex<Instant>);

impl Default for Heartbeat {
    fn default() -> Self {
        Self(Mutex::new(Instant::now()))
    }
}

impl Heartbeat {
    pub(crate) fn beat(&self) {
        *lock(&self.0) = Instant::now();
    }
}

/// Runs the work until it ends, or until there has been no sign of life for `limit`: then none.
pub(crate) async fn watch<T>(work: impl Future<Output = T>, heartbeat: &Heartbeat, limit: Duration) -> Option<T> {
    tokio::pin!(work);
    loop {
        let deadline = *lock(&heartbeat.0) + limit;
        if deadline <= Instant::now() {
            return None;
        }
        tokio::select! {
            biased;
            output = &mut work => return Some(output),
            () = tokio::time::sleep_until(deadline) => {}
        }
    }
}
