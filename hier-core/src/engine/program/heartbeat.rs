//! Signs of life of a node with an `idle_timeout`.

use std::future::Future;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::time::Instant;

use crate::sync::lock;

/// The time of a node's last sign of life.
pub(crate) struct NodeHeartbeat {
    last: Mutex<Instant>,
    /// Longest time between two signs of life of the node.
    limit: Duration,
    /// The heartbeat of the outer node. A sign of life of an inner node counts for it, too.
    outer: Option<Arc<NodeHeartbeat>>,
}

impl NodeHeartbeat {
    pub(crate) fn new(limit: Duration, outer: Option<Arc<NodeHeartbeat>>) -> Self {
        Self { last: Mutex::new(Instant::now()), limit, outer }
    }

    /// Returns the interval at which a waiting node must give a sign of life, so that neither it nor an outer node times out.
    pub(crate) fn interval(&self) -> Duration {
        let outer = self.outer.as_ref().map_or(Duration::MAX, |outer| outer.interval());
        outer.min(self.limit / 3).max(Duration::from_millis(1))
    }

    pub(crate) fn beat(&self) {
        let now = Instant::now();
        let mut at = Some(self);
        while let Some(heartbeat) = at {
            *lock(&heartbeat.last) = now;
            at = heartbeat.outer.as_deref();
        }
    }
}

/// Runs the work until it ends. Returns none if there was no sign of life for too long.
pub(crate) async fn watch<T>(work: impl Future<Output = T>, heartbeat: &NodeHeartbeat) -> Option<T> {
    tokio::pin!(work);
    loop {
        // A limit beyond the range of the clock never expires.
        let Some(deadline) = lock(&heartbeat.last).checked_add(heartbeat.limit) else { return Some(work.await) };
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
