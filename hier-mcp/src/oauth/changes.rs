use std::sync::{Arc, Mutex as SyncMutex, PoisonError, Weak};

use rmcp::transport::auth::StoredCredentials;
use tokio::sync::Mutex;

use super::store::TokenChange;

/// New tokens that are not stored yet, and the last error of the store.
struct UnsavedTokens {
    tokens: StoredCredentials,
    error: Option<String>,
}

/// The change of tokens in progress, and the tokens that the store does not have yet.
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
