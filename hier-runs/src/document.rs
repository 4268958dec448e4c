//! Documents: small JSON values that seldom change, and that several processes may change.

use std::time::SystemTime;

use serde_json::Value;

/// A small JSON value with a kind and an id. Run stores keep assistants, crons and pending webhooks as documents. Only
/// a caller that has read the latest revision of a document can replace the document.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Document {
    /// The kind of document, such as `cron`.
    pub kind: String,
    /// The id, unique among documents of its kind.
    pub id: String,
    /// The number of times that the document was stored, from 1.
    pub revision: u64,
    /// The value.
    pub value: Value,
    /// When a document is stored: the time from which `documents_due` returns it, or `None` for never. Stores do not
    /// return this time, so the field of a document that was read is always `None`.
    pub due: Option<SystemTime>,
}

impl Document {
    /// Creates a document. The store sets its revision.
    pub fn new(kind: impl Into<String>, id: impl Into<String>, value: Value) -> Self {
        Self { kind: kind.into(), id: id.into(), revision: 0, value, due: None }
    }

    /// Sets the time from which the document is due.
    #[must_use]
    pub const fn due(mut self, due: Option<SystemTime>) -> Self {
        self.due = due;
        self
    }

    /// Sets the revision. For a document in [`NewRun::document`](super::NewRun::document), this is the revision that
    /// the stored document must have.
    #[must_use]
    pub fn revision(mut self, revision: u64) -> Self {
        self.revision = revision;
        self
    }
}
