//! Chat and embedding models of OpenAI, Anthropic, Gemini, Ollama and compatible servers.
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
//! A [`Model`] implements [`ChatModel`](hier_agents::ChatModel), so a context can hold it as an `Arc<dyn ChatModel>`.
//! It retries temporary failures, such as a busy or unreachable server, and returns all other failures as
//! [`ModelError`](hier_agents::ModelError). Its API key never appears in `Debug` output, errors or logs.
//!
//! # Reasoning
//!
//! Some providers require that the next request contains the reasoning of their earlier replies. A conversation
//! therefore keeps the following fields of replies, as the [`Reasoning`](hier_agents::Reasoning) of a message or of a
//! tool call.
//!
//! | API | kept fields | attached to |
//! |---|---|---|
//! | chat completions | `reasoning_content` or `reasoning`, `reasoning_details` (OpenRouter), `extra_content` (Gemini). | Message or call. |
//! | responses | Reasoning items with `encrypted_content`. | Message or call. |
//! | Anthropic | `thinking` with its signature, `redacted_thinking`. | Message or call. |
//! | Gemini | `thoughtSignature`. | Message or call. |
//! | Ollama | `thinking`. | Message. |
//! | Bedrock | `reasoningContent` with its signature, or encrypted. | Message or call. |

mod address;
#[cfg(feature = "bedrock")]
mod aws;
mod conversation;
mod delay;
mod draft;
mod embed;
mod endpoint;
mod error;
mod key;
mod media;
mod model;
mod provider_tools;
mod refused_files;
mod retry;
mod secret;
mod server;
mod streaming;
mod transport;
mod wire;

#[cfg(feature = "bedrock")]
pub use aws_credential_types;
pub use embed::Embeddings;
pub use error::ParseModelError;
pub use model::Model;
pub use provider_tools::{FileSearch, SearchLocation, WebSearch};
pub use reqwest;
