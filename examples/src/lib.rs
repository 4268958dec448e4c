//! What the examples share: this package is one runnable file a concept.

use std::sync::Arc;

use hier_checkpoint::{Postgres, Sqlite};
use hier_core::checkpoint::Checkpointer;
use hier_core::{NodeError, Result};

/// The saver that `sqlite:PATH` or `postgres:URL` names.
pub async fn database(name: &str) -> Result<Arc<dyn Checkpointer>> {
    match name.split_once(':') {
        Some(("sqlite", path)) => Ok(Arc::new(Sqlite::open(path).await?)),
        Some(("postgres", rest)) => {
            // `postgres:URL` and a URL by itself are both understood.
            let url = if rest.starts_with("//") { name } else { rest };
            let saver = Postgres::options().connect(url).await?;
            saver.migrate().await?;
            Ok(Arc::new(saver))
        }
        _ => Err(NodeError::permanent(format!("`{name}` is no database: use `sqlite:PATH` or `postgres:URL`"))),
    }
}
