//! Progress notifications of a call.

use std::sync::{Arc, Mutex, PoisonError};

use hier_core::graph::DynEventSink;
use hier_core::runs::LogEvent;
use rmcp::RoleServer;
use rmcp::model::{ProgressNotificationParam, ProgressToken};
use rmcp::service::Peer;
use serde_json::Value;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

/// The maximum number of queued notifications. Further ones are dropped.
const WAITING: usize = 64;

/// Sends progress notifications to a client, in order.
pub(crate) struct ProgressSender {
    pub(crate) sink: DynEventSink,
    sending: JoinHandle<()>,
}

/// The progress of a call. The protocol requires that it increases.
struct ProgressCounts {
    /// The number of nodes that have ended.
    steps: u32,
    /// The last value that the graph emitted. `None` if it has emitted none.
    emitted: Option<f64>,
    /// The progress to which emitted values are added.
    base: f64,
    /// The progress in the last notification.
    last: f64,
}

impl ProgressCounts {
    /// Counts a node. Returns the progress, or `None` if the graph emits its progress.
    fn node_ended(&mut self) -> Option<f64> {
        self.steps += 1;
        self.emitted.is_none().then(|| f64::from(self.steps))
    }

    /// Returns the progress for an emitted value. A value below the last one comes from another count, such as that of
    /// the next node, and continues where the last one stopped.
    fn emitted(&mut self, value: f64) -> f64 {
        if value < self.emitted.unwrap_or(f64::from(self.steps)) {
            self.base = self.last.max(0.0);
        }
        self.emitted = Some(value);
        self.base + value
    }
}

impl ProgressSender {
    pub(crate) fn to(peer: Peer<RoleServer>, token: ProgressToken) -> Self {
        let (sender, mut waiting) = mpsc::channel::<ProgressNotificationParam>(WAITING);
        let sending = tokio::spawn(async move {
            while let Some(progress) = waiting.recv().await {
                if peer.notify_progress(progress).await.is_err() {
                    return;
                }
            }
        });
        let counts = ProgressCounts { steps: 0, emitted: None, base: 0.0, last: f64::NEG_INFINITY };
        let counts = Mutex::new(counts);
        let sink: DynEventSink = Arc::new(move |event| {
            let mut counts = counts.lock().unwrap_or_else(PoisonError::into_inner);
            let progress = match &event.body {
                LogEvent::Custom { value, .. } => emitted_progress(&token, value, &mut counts),
                LogEvent::Updates(update) if event.namespace.is_empty() => counts.node_ended().map(|steps| {
                    let message = format!("{} is done", update.node);
                    ProgressNotificationParam::new(token.clone(), steps).with_message(message)
                }),
                _ => None,
            };
            if let Some(progress) = progress.filter(|progress| progress.progress > counts.last) {
                counts.last = progress.progress;
                // If the queue is full, the notification is dropped.
                let _ = sender.try_send(progress);
            }
        });
        Self { sink, sending }
    }

    /// Waits until all queued notifications are sent.
    pub(crate) async fn finish(self) {
        drop(self.sink);
        let _ = self.sending.await;
    }
}

/// Converts a value that a node emitted.
fn emitted_progress(
    token: &ProgressToken,
    data: &Value,
    counts: &mut ProgressCounts,
) -> Option<ProgressNotificationParam> {
    let value = counts.emitted(data["progress"].as_f64()?);
    let mut progress = ProgressNotificationParam::new(token.clone(), value);
    // The total of one count says nothing about the sum of several.
    if let Some(total) = data["total"].as_f64().filter(|_| counts.base == 0.0) {
        progress = progress.with_total(total);
    }
    if let Some(message) = data["message"].as_str() {
        progress = progress.with_message(message);
    }
    Some(progress)
}
