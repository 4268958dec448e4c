//! Deliveries of the ends of runs to webhooks, as documents.

use std::time::SystemTime;

use serde::{Deserialize, Serialize};

use super::document::Document;
use super::run::Run;

/// The kind of the documents with deliveries. They do not contain the run, because they are read and stored again for
/// each attempt.
pub(super) const KIND: &str = "webhook";
/// The kind of the documents with the ended runs of deliveries. A thread may be deleted before its webhook is sent.
pub(super) const RUN: &str = "webhook_run";

/// A pending webhook: a message about the end of a run, which a worker sends to a URL.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Delivery {
    /// The id of the delivery, which is equal to the id of the run.
    pub id: String,
    /// The URL.
    pub address: String,
    /// The number of attempts so far.
    pub attempts: u32,
    /// The time from which a worker may make the next attempt.
    pub next: SystemTime,
    /// The time at which the delivery was created, because its run ended.
    pub created: SystemTime,
    /// The number of times that the delivery was stored. [`Webhooks::claim`](super::Webhooks::claim) succeeds only with
    /// the latest revision.
    #[serde(skip)]
    pub revision: u64,
}

/// Returns the documents to store when a run with a webhook ends.
pub(super) fn documents_of(run: &Run, now: SystemTime) -> Vec<Document> {
    let Some(address) = run.request.webhook.clone() else { return Vec::new() };
    let id = run.id.to_string();
    let delivery = Delivery { id: id.clone(), address, attempts: 0, next: now, created: now, revision: 0 };
    let stored = serde_json::to_value(&delivery).and_then(|delivery| Ok((delivery, serde_json::to_value(run)?)));
    match stored {
        Ok((delivery, run)) => vec![Document::new(RUN, &*id, run), Document::new(KIND, id, delivery).due(Some(now))],
        Err(error) => {
            tracing::warn!(run = id, %error, "failed to serialize a run that ended: its webhook is not called");
            Vec::new()
        }
    }
}
