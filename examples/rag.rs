//! Answers from documents: a store that searches texts by meaning, and an agent that searches it first.
//!
//! ```text
//! cargo run --features models --example rag                                          without a key: a scripted model, compares words
//! cargo run --features models --example rag -- "How long may I return a lamp?"
//! cargo run --features models --example rag -- --model openai:gpt-4o --embeddings    real models
//! ```
//!
//! Without `--embeddings`, texts are compared by the beginnings of their words, equally on every machine.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use clap::Parser;
use hier::agent::{Body, ChatModel, ChatRequest};
use hier::models::{Embeddings, Model};
use hier::prelude::*;
use hier::store::{Embedder, MemoryStore, Search, StoreError, StoreExt, StoreOptions};
use hier::testing::ScriptedModel;
use hier::{Result, async_trait};
use serde_json::json;

/// The pages of the shop.
const PAGES: [(&str, &str); 4] = [
    ("returns", "Whatever you do not like you can return within thirty days; lamps and mirrors within sixty."),
    ("shipping", "We ship to all of Europe. A parcel takes three days, an island a week."),
    ("payment", "You pay by card or on account. We take no cash."),
    ("repair", "What breaks within two years we repair, or replace if we cannot."),
];

graph! {
    /// Answers from the shop's pages.
    Answers<MessagesState> = Agent {
        system: "You answer questions about the shop. Search first; say which page it is from; if no page says it, say so.",
        tools: [search_pages],
        max_iterations: 6,
    }
}

/// Finds the pages of the shop that are nearest to a question.
#[tool]
async fn search_pages(question: String, run: &Run<BaseContext>) -> Result<String> {
    let near = Search::below(["pages"]).near(question).limit(2);
    let found = run.store()?.search(near).await?;
    let lines = found.iter().map(|item| format!("[{}] {}", item.key, item.value["text"].as_str().unwrap_or_default()));
    Ok(lines.collect::<Vec<_>>().join("\n"))
}

/// Compares texts by the beginnings of their words.
struct Words;

impl Words {
    /// The dimension of the vectors.
    const LENGTH: usize = 256;

    fn vector(text: &str) -> Vec<f32> {
        let mut vector = vec![0.0_f32; Self::LENGTH];
        let words = text.split(|letter: char| !letter.is_alphanumeric()).filter(|word| word.len() > 3);
        for word in words {
            let mut hasher = DefaultHasher::new();
            word.to_lowercase().chars().take(5).collect::<String>().hash(&mut hasher);
            let place = usize::try_from(hasher.finish() % 256).unwrap_or_default();
            vector[place] += 1.0;
        }
        // A vector must not be zero, even for a text without words.
        vector[0] += 0.01;
        vector
    }
}

#[async_trait]
impl Embedder for Words {
    async fn embed(&self, texts: Vec<String>) -> Result<Vec<Vec<f32>>, StoreError> {
        Ok(texts.iter().map(|text| Self::vector(text)).collect())
    }
}

/// Answers a question about the shop.
#[derive(Parser)]
struct Arguments {
    #[arg(default_value = "How many days do I have to return a lamp?")]
    question: String,
    /// The model: `openai:NAME`, `anthropic:NAME`, `ollama:NAME`, or the URL of a server compatible with OpenAI's.
    /// Defaults to a scripted model.
    #[arg(long)]
    model: Option<String>,
    /// Embeds with `OpenAI`'s `text-embedding-3-small`.
    #[arg(long)]
    embeddings: bool,
}

#[tokio::main]
async fn main() -> Result<()> {
    let Arguments { question, model, embeddings } = Arguments::parse();
    let model: Arc<dyn ChatModel> = match model {
        Some(name) => Arc::new(Model::parse(&name)?),
        None => Arc::new(ScriptedModel::reacting(answer)),
    };
    let options = StoreOptions::default();
    let options = if embeddings {
        options.index(Embeddings::openai("text-embedding-3-small"), ["text"])?
    } else {
        options.index(Words, ["text"])?
    };
    let store = MemoryStore::new(options);
    for (page, text) in PAGES {
        store.put(["pages"], page, &json!({ "text": text })).await?;
    }
    let answers = Answers::compile().store(store);
    let out = answers.invoke(Message::user(question)).context(BaseContext::new(model)).await?;
    println!("{}", out.text());
    Ok(())
}

/// Answers for the scripted model: searches for the question and quotes the first page.
fn answer(request: &ChatRequest) -> Message {
    match request.messages.last().map(|last| (&last.body, last.text())) {
        Some((Body::Tool { .. }, found)) => {
            let first = found.lines().next().unwrap_or_default();
            let (page, text) =
                first.trim_start_matches('[').split_once("] ").unwrap_or(("no page", "nothing was found"));
            Message::assistant(format!("{text} (from the page `{page}`)"))
        }
        Some((_, question)) => Message::call("search_pages", json!({ "question": question })),
        None => Message::assistant("What do you want to know?"),
    }
}
