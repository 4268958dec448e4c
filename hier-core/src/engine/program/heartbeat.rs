use std::future::Future;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::time::Instant;

use crate::sync::lock;

/// The heartbeat of a node with a timeout: the time of its last sign of life.
pub(crate) struct NodeHeartbeat {
    last: Mutex<Instant>,
    /// Longest time between two signs of life of the node. `Duration::MAX` for a node without an `idle_timeout`.
    limit: Duration,
    expired: AtomicBool,
    /// True if the node does not run again after this attempt.
    is_last: bool,
    /// The heartbeat of the outer node. A sign of life of this node is also one of the outer node.
    outer: Option<Arc<NodeHeartbeat>>,
}

impl NodeHeartbeat {
    pub(crate) fn new(limit: Duration, is_last: bool, outer: Option<Arc<NodeHeartbeat>>) -> Self {
        Self { last: Mutex::new(Instant::now()), limit, expired: AtomicBool::new(false), is_last, outer }
    }

    /// Records that the attempt has timed out. The caller drops the attempt afterwards.
    pub(crate) fn expire(&self) {
        self.expired.store(true, Ordering::Relaxed);
    }

    /// Returns `None` if neither this node nor an outer node has timed out. Otherwise returns true if the node that
    /// timed out does not run again.
    pub(crate) fn gave_up(&self) -> Option<bool> {
        let own = self.expired.load(Ordering::Relaxed).then_some(self.is_last);
        own.or_else(|| self.outer.as_ref()?.gave_up())
    }

    /// Returns the interval at which a waiting node must give a sign of life. The interval is short enough that neither
    /// this node nor an outer node times out.
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

/// Runs the work until it ends. Returns `None` if the node gives no sign of life for longer than its limit.
pub(crate) async fn watch<T>(work: impl Future<Output = T>, heartbeat: &NodeHeartbeat) -> Option<T> {
    tokio::pin!(work);
    loop {
        // A limit beyond the range of the clock never expires.
        let Some(deadline) = lock(&heartbeat.last).checked_add(heartbeat.limit) else { return Some(work.await) };
        if deadline <= Instant::now() {
            heartbeat.expire();
            return None;
        }
        tokio::select! {
            biased;
            output = &mut work => return Some(output),
            () = tokio::time::sleep_until(deadline) => {}
        }
    }
}
