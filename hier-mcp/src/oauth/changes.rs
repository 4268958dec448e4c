//! The changes of tokens by one process.

use std::convert::Infallible;
use std::sync::{Arc, Mutex as SyncMutex, PoisonError, Weak};

use hier_core::store::Item;
use rmcp::transport::auth::StoredCredentials;
use serde_json::{Map, Value};
use tokio::sync::{Mutex, OwnedMutexGuard, oneshot};
use uuid::Uuid;

/// The encrypted items on which a change builds.
#[derive(Clone, PartialEq)]
pub(super) struct ChangeBase {
    pub(super) client: Option<Map<String, Value>>,
    pub(super) tokens: Option<Map<String, Value>>,
}

impl ChangeBase {
    pub(super) fn new([client, tokens]: [Option<Item>; 2]) -> Self {
        Self { client: client.map(|item| item.value), tokens: tokens.map(|item| item.value) }
    }

    /// Returns true if the tokens of a change that began with this base may replace the stored ones. A process whose
    /// refresh was refused deletes the tokens; one that forgets them deletes the client too.
    pub(super) fn allows_change_of(&self, stored: &Self) -> bool {
        self.client == stored.client && (stored.tokens.is_none() || self.tokens == stored.tokens)
    }
}

/// A mark in the store. Dropping it deletes the mark.
pub(super) struct HeldMark {
    pub(super) owner: Uuid,
    pub(super) _release: oneshot::Sender<Infallible>,
}

/// A change of the tokens, which no other task of this process makes at the same time.
pub(super) struct TokenChange {
    pub(super) mark: HeldMark,
    pub(super) base: SyncMutex<ChangeBase>,
    pub(super) _lock: OwnedMutexGuard<()>,
}

/// New tokens that are not stored yet, and the last error of the store.
struct UnsavedTokens {
    tokens: StoredCredentials,
    error: Option<String>,
}

/// The changes of tokens by this process.
#[derive(Default)]
pub(super) struct TokenChanges {
    pub(super) lock: Arc<Mutex<()>>,
    current: SyncMutex<Weak<TokenChange>>,
    unsaved: SyncMutex<Option<UnsavedTokens>>,
}

impl TokenChanges {
    pub(super) fn current(&self) -> Option<Arc<TokenChange>> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner).upgrade()
    }

    pub(super) fn begin(&self, change: TokenChange) -> Arc<TokenChange> {
        let change = Arc::new(change);
        *self.current.lock().unwrap_or_else(PoisonError::into_inner) = Arc::downgrade(&change);
        change
    }

    /// Notes that this process itself has stored the client.
    pub(super) fn note_client(&self, client: Map<String, Value>) {
        if let Some(change) = self.current() {
            change.base.lock().unwrap_or_else(PoisonError::into_inner).client = Some(client);
        }
    }

    pub(super) fn unsaved(&self) -> Option<StoredCredentials> {
        let unsaved = self.unsaved.lock().unwrap_or_else(PoisonError::into_inner);
        unsaved.as_ref().map(|unsaved| unsaved.tokens.clone())
    }

    pub(super) fn set_unsaved(&self, tokens: Option<StoredCredentials>) {
        let unsaved = tokens.map(|tokens| UnsavedTokens { tokens, error: None });
        *self.unsaved.lock().unwrap_or_else(PoisonError::into_inner) = unsaved;
    }

    pub(super) fn save_error(&self) -> Option<String> {
        self.unsaved.lock().unwrap_or_else(PoisonError::into_inner).as_ref()?.error.clone()
    }

    pub(super) fn set_save_error(&self, error: String) {
        if let Some(unsaved) = &mut *self.unsaved.lock().unwrap_or_else(PoisonError::into_inner) {
            unsaved.error = Some(error);
        }
    }
}
