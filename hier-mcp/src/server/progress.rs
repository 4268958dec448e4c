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

struct ProgressCounts {
    /// The number of nodes that have ended.
    steps: u32,
    /// The progress in the last notification.
    last: f64,
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
        let counts = Mutex::new(ProgressCounts { steps: 0, last: f64::NEG_INFINITY });
        let sink: DynEventSink = Arc::new(move |event| {
            let mut counts = counts.lock().unwrap_or_else(PoisonError::into_inner);
            let mut done = |node: &str| {
                counts.steps += 1;
                let progress = ProgressNotificationParam::new(token.clone(), f64::from(counts.steps));
                Some(progress.with_message(format!("{node} is done")))
            };
            let progress = match &event.body {
                LogEvent::Custom { value, .. } => emitted_progress(&token, value),
                LogEvent::Updates(update) if event.namespace.is_empty() => done(&update.node),
                _ => None,
            };
            // The protocol requires that the progress increases. The graph may count something else than its nodes.
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
fn emitted_progress(token: &ProgressToken, data: &Value) -> Option<ProgressNotificationParam> {
    let mut progress = ProgressNotificationParam::new(token.clone(), data["progress"].as_f64()?);
    if let Some(total) = data["total"].as_f64() {
        progress = progress.with_total(total);
    }
    if let Some(message) = data["message"].as_str() {
        progress = progress.with_message(message);
    }
    Some(progress)
}
