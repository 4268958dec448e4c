//! The code of `docs/models.md`.

use hier::models::Embeddings;
use hier::prelude::*;
use hier::store::{MemoryStore, StoreOptions};

fn model() -> hier::Result<()> {
    let model = Model::parse("anthropic:claude-sonnet-4-5")?; // the key is in ANTHROPIC_API_KEY
    let context = BaseContext::new(model);
    Ok(())
}

fn embeddings() -> hier::Result<()> {
    let embeddings = Embeddings::parse("openai:text-embedding-3-small")?;
    let store = MemoryStore::new(StoreOptions::default().index(embeddings, ["text"])?);
    Ok(())
}
