//! Counts the documents of each user, so that a server can limit their number.
//!
//! For each document, the store has an empty second document, with the same id and a kind that names the user.

use serde_json::Value;

use super::document::Document;
use super::error::RunsError;
use super::store::RunStore;

/// The maximum length, in bytes, of a user's name that is part of a kind of documents.
const LONGEST_USER: usize = 1_000;

/// Returns the kind of the documents that count a user's documents of another kind.
///
/// A database limits the length of a kind, so the kind of a user with a long name has a hash of the name.
fn kind_of(kind: &str, user: &str) -> String {
    if user.len() <= LONGEST_USER {
        return format!("{kind} of {user}");
    }
    let hash = uuid::Uuid::from_u128(xxhash_rust::xxh3::xxh3_128(user.as_bytes()));
    format!("{kind} of a long name {hash}")
}

/// Stores a document of a user. Returns false if a document with its id exists. The value of the document must name the
/// user as `user`.
pub(super) async fn create_counted(store: &dyn RunStore, document: Document, user: &str) -> Result<bool, RunsError> {
    let (kind, id, of) = (kind_of(&document.kind, user), document.id.clone(), document.kind.clone());
    // A document that is stored but not counted would evade the limit, so the other order is wrong.
    let is_new = store.put_document(Document::new(&kind, &id, Value::Null), None).await?;
    let is_stored = store.put_document(document, None).await?;
    if is_new && !is_stored {
        // A concurrent call for the same user may have stored the document.
        let found = store.document(&of, &id).await?;
        if found.as_ref().and_then(|found| found.value.get("user")?.as_str()) != Some(user) {
            store.remove_document(&kind, &id).await?;
        }
    }
    Ok(is_stored)
}

/// Deletes a document that [`create_counted`] has stored. Returns false if it does not exist.
pub(super) async fn delete_counted(store: &dyn RunStore, kind: &str, id: &str) -> Result<bool, RunsError> {
    let found = store.document(kind, id).await?;
    // If the second call fails, the caller can delete the document again. In the other order, the deleted document would
    // count for its user forever.
    if let Some(user) = found.as_ref().and_then(|found| found.value.get("user")?.as_str()) {
        store.remove_document(&kind_of(kind, user), id).await?;
    }
    store.remove_document(kind, id).await
}

/// Returns the number of a user's documents of this kind.
pub(super) async fn count_of(store: &dyn RunStore, kind: &str, user: &str) -> Result<usize, RunsError> {
    Ok(store.documents(&kind_of(kind, user)).await?.len())
}
