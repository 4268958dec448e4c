//! The code of `docs/models.md`.

use hier::models::aws_credential_types::provider::SharedCredentialsProvider;
use hier::models::{Embeddings, WebSearch};
use hier::prelude::*;
use hier::store::{MemoryStore, StoreOptions};

fn model() -> hier::Result<()> {
    let model = Model::parse("anthropic:claude-sonnet-4-5")?; // the key is in ANTHROPIC_API_KEY
    let context = BaseContext::new(model);
    Ok(())
}

fn own_tools() {
    let search = WebSearch::new().max_uses(3).allowed_domains(["docs.rs", "rust-lang.org"]);
    let model = Model::anthropic("claude-sonnet-4-5").web_search(search).code_execution();
}

fn bedrock(provider: SharedCredentialsProvider) {
    let model = Model::bedrock("eu.anthropic.claude-opus-4-6-v1").aws_region("eu-central-1").aws_credentials(provider);
}

fn citations(answer: &Message) {
    for source in answer.citations() {
        println!("{:?}: {:?}", source.url, source.passage(&answer.text()));
    }
}

fn embeddings() -> hier::Result<()> {
    let embeddings = Embeddings::parse("openai:text-embedding-3-small")?;
    let store = MemoryStore::new(StoreOptions::default().index(embeddings, ["text"])?);
    Ok(())
}
