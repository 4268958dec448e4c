//! The changes of tokens by one process.

use std::sync::{Arc, Mutex as SyncMutex, PoisonError};

use tokio::sync::Mutex;
use uuid::Uuid;

/// The changes of tokens by this process.
#[derive(Default)]
pub(super) struct TokenChanges {
    pub(super) lock: Arc<Mutex<()>>,
    /// The owner of this process's mark.
    owner: SyncMutex<Option<Uuid>>,
}

impl TokenChanges {
    pub(super) fn owner(&self) -> Option<Uuid> {
        *self.owner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn set_owner(&self, owner: Option<Uuid>) {
        *self.owner.lock().unwrap_or_else(PoisonError::into_inner) = owner;
    }
}
