//! Documents: small JSON values that are changed seldom and by many.

use std::time::SystemTime;

use serde_json::Value;

/// A small JSON value with a name. It is replaced as a whole, and only by a caller that has seen its latest revision.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Document {
    /// The kind.
    pub kind: String,
    /// Its id, unique for its kind.
    pub id: String,
    /// Number of times that the document was stored, from 1.
    pub revision: u64,
    /// The value.
    pub value: Value,
    /// Time from which `documents_due` finds the document, or none if never. It is stored,
    /// but not returned when the document is read.
    pub due: Option<SystemTime>,
}

impl Document {
    /// Creates a stored document. The store counts revisions.
    pub fn new(kind: impl Into<String>, id: impl Into<String>, value: Value) -> Self {
        Self { kind: kind.into(), id: id.into(), revision: 0, value, due: None }
    }

    /// Sets the time from which the document is due.
    #[must_use]
    pub const fn due(mut self, due: Option<SystemTime>) -> Self {
        self.due = due;
        self
    }

    /// Sets the revision.
    #[must_use]
    pub fn revision(mut self, revision: u64) -> Self {
        self.revision = revision;
        self
    }
}
