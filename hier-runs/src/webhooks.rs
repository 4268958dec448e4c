//! Webhooks: addresses that receive the end of a run.
//!
//! The transaction that ends a run stores its delivery, so that no delivery is lost. The server sends the delivery and
//! then deletes it.

use std::time::{Duration, SystemTime};

use serde::de::DeserializeOwned;
use serde_json::Value;

use super::RunStore;
use super::delivery::{Delivery, PATHS, RUN, URLS};
use super::document::Document;
use super::documents::readable_due;
use super::error::RunsError;
use super::run::Run;

/// The pending webhooks in a run store, with the methods to read and change them.
#[derive(Clone, Copy)]
pub struct Webhooks<'a>(&'a dyn RunStore);

impl<'a> Webhooks<'a> {
    /// Creates access to the pending webhooks of a store. Does not read from the store.
    pub const fn of(store: &'a dyn RunStore) -> Self {
        Self(store)
    }

    /// Returns all pending deliveries.
    pub async fn all(self) -> Result<Vec<Delivery>, RunsError> {
        let (mut all, paths) = (self.0.documents(URLS).await?, self.0.documents(PATHS).await?);
        all.extend(paths);
        all.iter().map(delivery).collect()
    }

    /// Returns the deliveries to URLs whose next attempt has been due for the longest time, but not more than a fixed
    /// number. They are sorted by the time of their creation. If the method cannot read a delivery, it logs a warning and
    /// skips this delivery for a minute.
    pub async fn due(self, now: SystemTime) -> Result<Vec<Delivery>, RunsError> {
        self.due_of_kind(URLS, now).await
    }

    /// Returns deliveries like [`due`](Self::due), but to paths of a server. Only a process with a server can send them.
    pub async fn due_paths(self, now: SystemTime) -> Result<Vec<Delivery>, RunsError> {
        self.due_of_kind(PATHS, now).await
    }

    async fn due_of_kind(self, kind: &str, now: SystemTime) -> Result<Vec<Delivery>, RunsError> {
        let mut due = readable_due(self.0, kind, now, delivery).await?;
        due.retain(|delivery| delivery.next <= now);
        due.sort_by(|a, b| a.created.cmp(&b.created).then_with(|| a.id.cmp(&b.id)));
        Ok(due)
    }

    /// Claims a delivery for one attempt. Returns the delivery with the ended run. If the method cannot read the run,
    /// it returns the error instead of the run. Treat this error as a failed attempt. Returns `None` if another process
    /// has already claimed or delivered the webhook.
    ///
    /// The claim expires after `lasts`. If the caller has called neither [`done`](Self::done) nor
    /// [`again`](Self::again) by then, another process can claim the delivery.
    pub async fn claim(
        self,
        delivery: &Delivery,
        now: SystemTime,
        lasts: Duration,
    ) -> Result<Option<(Delivery, Result<Run, RunsError>)>, RunsError> {
        let mut claimed = delivery.clone();
        claimed.attempts = claimed.attempts.saturating_add(1);
        claimed.next = now.checked_add(lasts).unwrap_or(now);
        if !self.put(&claimed).await? {
            return Ok(None);
        }
        claimed.revision += 1;
        let Some(run) = self.0.document(RUN, &delivery.id).await? else {
            // The webhook was sent, but the process stopped before it deleted the delivery.
            self.done(&claimed).await?;
            return Ok(None);
        };
        Ok(Some((claimed, read(&run))))
    }

    /// Deletes a delivery. Call this method after the message was sent, or to give up.
    pub async fn done(self, delivery: &Delivery) -> Result<(), RunsError> {
        self.0.remove_document(RUN, &delivery.id).await?;
        self.0.remove_document(delivery.kind(), &delivery.id).await.map(|_| ())
    }

    /// Schedules the next attempt at the time `at`. Call this method after a failed attempt. Does nothing if another
    /// process has claimed the delivery.
    pub async fn again(self, claimed: &Delivery, at: SystemTime) -> Result<(), RunsError> {
        // If another process has claimed the delivery in between, its claim has priority.
        self.put(&Delivery { next: at, ..claimed.clone() }).await.map(|_| ())
    }

    async fn put(self, delivery: &Delivery) -> Result<bool, RunsError> {
        let value = serde_json::to_value(delivery)
            .map_err(|error| RunsError::Invalid(format!("a webhook cannot be stored: {error}")))?;
        self.0
            .put_document(
                Document::new(delivery.kind(), &*delivery.id, value).due(Some(delivery.next)),
                Some(delivery.revision),
            )
            .await
    }
}

impl std::fmt::Debug for Webhooks<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Webhooks")
    }
}

fn delivery(document: &Document) -> Result<Delivery, RunsError> {
    Ok(Delivery { revision: document.revision, ..read(document)? })
}

fn read<T: DeserializeOwned>(document: &Document) -> Result<T, RunsError> {
    let Document { kind, id, value, .. } = document;
    let read = |value: Value| serde_json::from_value(value);
    read(value.clone()).map_err(|error| RunsError::Invalid(format!("the stored {kind} `{id}` cannot be read: {error}")))
}
