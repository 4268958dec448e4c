//! Where a server keeps what it knows.

use std::sync::Arc;

use hier_core::runs::{MemoryRuns, RunStore};
use hier_core::store::{MemoryStore, Store};

use crate::failure::ServerError;

/// A database: runs with threads and checkpoints, and the memory across threads.
pub(crate) struct Database {
    pub(crate) runs: Arc<dyn RunStore>,
    pub(crate) store: Arc<dyn Store>,
}

impl Database {
    /// In the memory of this process.
    pub(crate) fn memory() -> Self {
        Self { runs: Arc::new(MemoryRuns::new()), store: Arc::new(MemoryStore::default()) }
    }

    /// The database with this address.
    pub(crate) async fn open(url: &str) -> Result<Self, ServerError> {
        let scheme = url.split(':').next().unwrap_or_default();
        Err(ServerError::Database {
            scheme: scheme.to_owned(),
            reason: "no such database is served: without `.database(…)` a server keeps everything in memory".to_owned(),
        })
    }
}
