//! The code that the examples share. The package has one runnable file for each concept.

use std::sync::Arc;

use hier::agent::ChatModel;
use hier::checkpoint::Checkpointer;
use hier::checkpoint::Sqlite;
use hier::{NodeError, Result};

/// Opens the saver of a file, `sqlite:PATH` or `postgres:URL`.
pub async fn database(name: &str) -> Result<Arc<dyn Checkpointer>> {
    match name.split_once(':') {
        None => Ok(Arc::new(Sqlite::open(name).await?)),
        Some(("sqlite", path)) => Ok(Arc::new(Sqlite::open(path).await?)),
        // Both `postgres:URL` and a plain URL are accepted.
        Some(("postgres" | "postgresql", rest)) => postgres(if rest.starts_with("//") { name } else { rest }).await,
        _ => Err(NodeError::permanent(format!(
            "`{name}` is not a database: give a file, `sqlite:PATH` or `postgres:URL`"
        ))),
    }
}

#[cfg(feature = "postgres")]
async fn postgres(url: &str) -> Result<Arc<dyn Checkpointer>> {
    let saver = hier::checkpoint::Postgres::options().connect(url).await?;
    saver.migrate().await?;
    Ok(Arc::new(saver))
}

#[cfg(not(feature = "postgres"))]
async fn postgres(_: &str) -> Result<Arc<dyn Checkpointer>> {
    Err(NodeError::permanent("this was built without Postgres: add `--features postgres` before `--example`"))
}

/// Returns the model of `openai:NAME`, `anthropic:NAME`, `gemini:NAME`, `ollama:NAME` or the URL of a compatible server.
#[cfg(feature = "models")]
pub fn model(name: &str) -> Result<Arc<dyn ChatModel>> {
    Ok(Arc::new(hier::models::Model::parse(name)?))
}

/// Returns an error that says how to build the examples with real models.
#[cfg(not(feature = "models"))]
pub fn model(_: &str) -> Result<Arc<dyn ChatModel>> {
    Err(NodeError::permanent("this was built without real models: add `--features models` before `--example`"))
}
