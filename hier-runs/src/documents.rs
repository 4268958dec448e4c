//! Drives the documents of a [`RunStore`].

use std::time::{Duration, SystemTime};

use super::document::Document;
use super::driver::guard;
use super::error::RunsError;
use super::store::RunStore;

/// Documents: the storage of [`Assistants`](super::Assistants), [`Crons`](super::Crons) and
/// [`Webhooks`](super::Webhooks).
impl dyn RunStore + '_ {
    /// Returns a document, or `None` if it does not exist.
    pub async fn document(&self, kind: &str, id: &str) -> Result<Option<Document>, RunsError> {
        guard("document", || self.document_backend().load_document(kind, id)).await
    }

    /// Returns all documents of a kind, sorted by id.
    pub async fn documents(&self, kind: &str) -> Result<Vec<Document>, RunsError> {
        guard("documents", || self.document_backend().find_documents(kind)).await
    }

    /// Returns documents of a kind that are due at the time `by` ([`Document::due`]), the longest overdue first. Each
    /// call returns a limited number of documents.
    pub async fn documents_due(&self, kind: &str, by: SystemTime) -> Result<Vec<Document>, RunsError> {
        guard("documents_due", || self.document_backend().find_due_documents(kind, by)).await
    }

    /// Stores a document if the stored document has the revision `replaces`, or if `replaces` is `None` and the
    /// document is not stored yet. In all other cases, stores nothing and returns false.
    pub async fn put_document(&self, document: Document, replaces: Option<u64>) -> Result<bool, RunsError> {
        guard("put_document", || self.document_backend().store_document(document, replaces)).await
    }

    /// Deletes a document. Returns false if it does not exist.
    pub async fn remove_document(&self, kind: &str, id: &str) -> Result<bool, RunsError> {
        guard("remove_document", || self.document_backend().delete_document(kind, id)).await
    }
}

/// Returns the values of the readable documents, and logs the others. Drops each document after it was read.
pub(super) fn readable<T>(
    documents: Vec<Document>,
    read: impl Fn(&Document) -> Result<T, RunsError>,
) -> impl Iterator<Item = T> {
    let readable_value = move |document| match read(&document) {
        Ok(found) => Some(found),
        Err(error) => {
            tracing::warn!(%error, "skipped a document that cannot be read: run the version of hier that wrote it, or delete it");
            None
        }
    };
    documents.into_iter().filter_map(readable_value)
}

/// Time after which a due document that cannot be read is due again. A later version of the program may be able to read
/// the document.
const UNREAD: Duration = Duration::from_mins(1);

/// Returns the values of due documents. A document that cannot be read becomes due later, because a store returns a
/// limited number of documents at a time.
pub(super) async fn readable_due<T>(
    store: &dyn RunStore,
    kind: &str,
    now: SystemTime,
    read: impl Fn(&Document) -> Result<T, RunsError> + Send,
) -> Result<Vec<T>, RunsError>
where
    T: Send,
{
    let mut found = Vec::new();
    for document in store.documents_due(kind, now).await? {
        match read(&document) {
            Ok(due) => found.push(due),
            Err(error) => {
                tracing::warn!(%error, "skipped a due document that cannot be read; trying again in a minute: run the \
                    version of hier that wrote it, or delete it");
                let revision = document.revision;
                store.put_document(document.due(now.checked_add(UNREAD)), Some(revision)).await?;
            }
        }
    }
    Ok(found)
}
