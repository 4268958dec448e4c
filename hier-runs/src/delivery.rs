//! Deliveries of the ends of runs to webhooks, as documents.

use std::time::SystemTime;

use serde::{Deserialize, Serialize};

use super::document::Document;
use super::run::Run;

/// The kind of the documents with deliveries to URLs. They do not contain the run, because they are read and stored
/// again for each attempt.
pub(super) const URLS: &str = "webhook";
/// The kind of the documents with deliveries to paths, which only processes with a server can send. The other processes
/// do not read them, because a read returns a limited number of documents.
pub(super) const PATHS: &str = "webhook_path";
/// The kind of the documents with the ended runs of deliveries. A thread may be deleted before its webhook is sent.
pub(super) const RUN: &str = "webhook_run";

/// A pending webhook: a message about the end of a run, which a worker or server sends to a URL.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Delivery {
    /// The id of the delivery, which is equal to the id of the run.
    pub id: String,
    /// The URL, or a path of a server that shares the store.
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

impl Delivery {
    /// Returns the kind of the delivery's document.
    pub(super) fn kind(&self) -> &'static str {
        if self.address.starts_with('/') { PATHS } else { URLS }
    }
}

/// Returns the documents to store when a run with a webhook ends.
pub(super) fn documents_of(run: &Run, now: SystemTime) -> Vec<Document> {
    let Some(address) = run.request.webhook.clone() else { return Vec::new() };
    let id = run.id.to_string();
    let delivery = Delivery { id: id.clone(), address, attempts: 0, next: now, created: now, revision: 0 };
    let kind = delivery.kind();
    let stored = serde_json::to_value(&delivery).and_then(|delivery| Ok((delivery, serde_json::to_value(run)?)));
    match stored {
        Ok((delivery, run)) => vec![Document::new(RUN, &*id, run), Document::new(kind, id, delivery).due(Some(now))],
        Err(error) => {
            tracing::warn!(run = id, %error, "failed to serialize a run that ended: its webhook is not called");
            Vec::new()
        }
    }
}
