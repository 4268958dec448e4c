//! The code that the examples share. The package has one runnable file for each concept.

use std::sync::Arc;

use hier::agent::ChatModel;
use hier::checkpoint::Checkpointer;
use hier::checkpoint::Sqlite;
use hier::{NodeError, Result};

/// The saver in this file, or the one that `sqlite:PATH` or `postgres:URL` names.
pub async fn database(name: &str) -> Result<Arc<dyn Checkpointer>> {
    match name.split_once(':') {
        None => Ok(Arc::new(Sqlite::open(name).await?)),
        Some(("sqlite", path)) => Ok(Arc::new(Sqlite::open(path).await?)),
        // `postgres:URL` and a URL by itself are both understood.
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

/// The model that `openai:NAME`, `anthropic:NAME`, `gemini:NAME`, `ollama:NAME` or the URL of a compatible server names.
#[cfg(feature = "models")]
pub fn model(name: &str) -> Result<Arc<dyn ChatModel>> {
    Ok(Arc::new(hier::models::Model::parse(name)?))
}

/// Says how to build the examples with real models.
#[cfg(not(feature = "models"))]
pub fn model(_: &str) -> Result<Arc<dyn ChatModel>> {
    Err(NodeError::permanent("this was built without real models: add `--features models` before `--example`"))
}
