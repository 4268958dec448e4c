//! Opens the databases of a server.

use std::sync::Arc;

use hier_core::runs::{MemoryRuns, RunStore};
use hier_core::store::{MemoryStore, Store};

use crate::failure::ServerError;

/// The database of runs, threads and checkpoints, and the database of the memory store.
pub(crate) struct Database {
    pub(crate) runs: Arc<dyn RunStore>,
    pub(crate) store: Arc<dyn Store>,
}

impl Database {
    pub(crate) fn memory() -> Self {
        Self { runs: Arc::new(MemoryRuns::new()), store: Arc::new(MemoryStore::default()) }
    }

    #[cfg_attr(
        not(any(feature = "sqlite", feature = "postgres")),
        allow(clippy::unused_async, reason = "without these features nothing is awaited")
    )]
    pub(crate) async fn open(url: &str) -> Result<Self, ServerError> {
        let (scheme, rest) = url.split_once(':').unwrap_or((url, ""));
        let failed = |reason: String| ServerError::Database { scheme: scheme.to_owned(), reason };
        match scheme {
            #[cfg(feature = "sqlite")]
            "sqlite" => {
                let path = rest.strip_prefix("//").unwrap_or(rest);
                let runs = hier_sqlite::Sqlite::open(path).await.map_err(|error| failed(error.to_string()))?;
                let store = hier_sqlite::SqliteStore::open(path).await.map_err(|error| failed(error.to_string()))?;
                Ok(Self { runs: Arc::new(runs), store: Arc::new(store) })
            }
            #[cfg(not(feature = "sqlite"))]
            "sqlite" => Err(failed(format!("`{rest}` needs SQLite: enable the feature `sqlite` of hier"))),
            #[cfg(feature = "postgres")]
            "postgres" | "postgresql" => Self::postgres(url).await.map_err(failed),
            #[cfg(not(feature = "postgres"))]
            "postgres" | "postgresql" => {
                Err(failed("this program is built without Postgres: enable the feature `postgres` of hier".to_owned()))
            }
            _ => Err(failed("the scheme is unknown: use `sqlite:FILE` or `postgres://…`".to_owned())),
        }
    }

    #[cfg(feature = "postgres")]
    async fn postgres(url: &str) -> Result<Self, String> {
        use hier_postgres::{Postgres, PostgresStore};
        let runs = Postgres::options().connect(url).await.map_err(|error| error.to_string())?;
        runs.migrate().await.map_err(|error| error.to_string())?;
        let store = PostgresStore::connect(url).await.map_err(|error| error.to_string())?;
        store.migrate().await.map_err(|error| error.to_string())?;
        Ok(Self { runs: Arc::new(runs), store: Arc::new(store) })
    }
}
