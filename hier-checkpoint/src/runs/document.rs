//! Documents: small JSON values that are changed seldom and by many.

use std::time::{Duration, SystemTime};

use serde_json::Value;

use super::RunStore;
use super::error::RunsError;

/// A small JSON value under a name. It is replaced as a whole, and only by whoever has seen its latest revision.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Document {
    /// What it is.
    pub kind: String,
    /// Its id among those of its kind.
    pub id: String,
    /// Number of times that the document was stored, from 1.
    pub revision: u64,
    /// What it holds.
    pub value: Value,
    /// Time from which [`RunStore::documents_due`](super::RunStore::documents_due) finds the document, or none if never. It is stored,
    /// but not returned when the document is read.
    pub due: Option<SystemTime>,
}

impl Document {
    /// A document as it is stored: the store counts revisions.
    pub fn new(kind: impl Into<String>, id: impl Into<String>, value: Value) -> Self {
        Self { kind: kind.into(), id: id.into(), revision: 0, value, due: None }
    }

    /// Sets the time from which the document is due.
    #[must_use]
    pub const fn due(mut self, due: Option<SystemTime>) -> Self {
        self.due = due;
        self
    }

    /// The same in this revision.
    #[must_use]
    pub fn revision(mut self, revision: u64) -> Self {
        self.revision = revision;
        self
    }
}

/// What these documents hold, as far as it can be read; what cannot is told.
pub(super) fn readable<T>(documents: &[Document], read: impl Fn(&Document) -> Result<T, RunsError>) -> Vec<T> {
    let told = |document| match read(document) {
        Ok(found) => Some(found),
        Err(error) => {
            tracing::warn!(%error, "a document is passed over");
            None
        }
    };
    documents.iter().filter_map(told).collect()
}

/// Time until a due document that cannot be read is looked at again. A later version of the program may be able to.
const UNREAD: Duration = Duration::from_mins(1);

/// Returns the values of due documents. Unreadable documents are due again later, because a store returns a limited number at a time.
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
                tracing::warn!(%error, "a document that is due is passed over");
                let revision = document.revision;
                store.put_document(document.due(now.checked_add(UNREAD)), Some(revision)).await?;
            }
        }
    }
    Ok(found)
}
