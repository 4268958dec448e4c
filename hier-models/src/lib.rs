//! Models for agents of hier: OpenAI, Anthropic, Gemini, Ollama, and every server that speaks like one of them.
//!
//! ```no_run
//! use hier_agents::{ChatModel, ChatRequest, Message};
//! use hier_models::Model;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let model = Model::parse("openai:gpt-4o")?; // the key is in OPENAI_API_KEY
//! let request = ChatRequest::new([Message::user("Say hello.")]);
//! println!("{}", model.chat(request).await?.text());
//! # Ok(())
//! # }
//! ```
//!
//! A [`Model`] goes into an agent's context as an `Arc<dyn ChatModel>`. It tries again what may pass (a busy or
//! unreachable server), reports the rest as [`ModelError`](hier_agents::ModelError), and keeps its key to itself:
//! neither `Debug` nor an error nor a log line has it.

mod address;
mod attempt;
mod conversation;
mod delay;
mod draft;
mod embed;
mod endpoint;
mod error;
mod media;
mod model;
mod pieces;
mod refused;
mod secret;
mod server;
mod transport;
mod wire;

pub use embed::Embeddings;
pub use error::ParseModelError;
pub use model::Model;
