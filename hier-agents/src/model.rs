//! Models that answer conversations: the trait, what they are asked and what they answer.

use std::error::Error;
use std::pin::Pin;
use std::sync::Arc;

use async_trait::async_trait;
use futures_core::Stream;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::options::ModelOptions;
use hier_checkpoint::message::{BadAnswer, ChatChunk, ChatResponse, Messages};

/// A tool as a model sees it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ToolSpec {
    /// The name by which it is called.
    pub name: String,
    /// What it is for.
    pub description: String,
    /// The JSON schema of its arguments: an object.
    pub parameters: Value,
}

/// A shape that a model's answer must have.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct OutputSpec {
    /// A name for the shape.
    pub name: String,
    /// The JSON schema of the answer.
    pub schema: Value,
}

impl OutputSpec {
    /// The shape of a type, named as given (letters, digits, `_` and `-`).
    ///
    /// ```
    /// # use hier_agents::OutputSpec;
    /// #[derive(serde::Deserialize, schemars::JsonSchema)]
    /// struct Verdict {
    ///     accepted: bool,
    /// }
    ///
    /// let output = OutputSpec::of::<Verdict>("verdict");
    /// assert_eq!(output.schema["properties"]["accepted"]["type"], "boolean");
    /// ```
    pub fn of<T: schemars::JsonSchema>(name: impl Into<String>) -> Self {
        Self { name: name.into(), schema: crate::schema::schema_of::<T>() }
    }
}

/// What a model is asked.
///
/// ```
/// use hier_agents::{ChatRequest, Message, ModelOptions};
///
/// let request = ChatRequest::new([Message::user("Say hello.")]).options(ModelOptions::new().max_tokens(50));
/// assert_eq!(request.messages.len(), 1);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ChatRequest {
    /// The conversation so far.
    pub messages: Messages,
    /// The tools that it may call.
    pub tools: Arc<[ToolSpec]>,
    /// The shape that its answer must have.
    pub output: Option<OutputSpec>,
    /// How it is to answer.
    pub options: ModelOptions,
}

impl ChatRequest {
    /// Asks for the next message of this conversation.
    pub fn new(messages: impl Into<Messages>) -> Self {
        Self { messages: messages.into(), ..Self::default() }
    }

    /// The same request, with tools that the model may call.
    #[must_use]
    pub fn tools(self, tools: impl Into<Arc<[ToolSpec]>>) -> Self {
        Self { tools: tools.into(), ..self }
    }

    /// The same request, whose answer must have this shape.
    #[must_use]
    pub fn output(self, output: impl Into<Option<OutputSpec>>) -> Self {
        Self { output: output.into(), ..self }
    }

    /// The same request, to be answered like this.
    #[must_use]
    pub fn options(self, options: ModelOptions) -> Self {
        Self { options, ..self }
    }
}

impl From<BadAnswer> for ModelError {
    fn from(BadAnswer { model, reason }: BadAnswer) -> Self {
        Self::BadAnswer { model, reason }
    }
}

/// An answer that is being made: its pieces, then the whole answer.
pub type ChatStream = Pin<Box<dyn Stream<Item = Result<ChatChunk, ModelError>> + Send>>;

/// A model that answers conversations. Object-safe: contexts hold an `Arc<dyn ChatModel>`. Written with
/// [`async_trait`](hier_core::async_trait).
///
/// ```
/// use hier_agents::{ChatModel, ChatRequest, ChatResponse, ModelError};
/// use hier_core::async_trait;
/// use hier_agents::prelude::*;
///
/// struct Echo;
///
/// #[async_trait]
/// impl ChatModel for Echo {
///     fn name(&self) -> &str {
///         "echo"
///     }
///
///     async fn chat(&self, request: ChatRequest) -> Result<ChatResponse, ModelError> {
///         let said = request.messages.last().and_then(Message::content).cloned();
///         let message = Message::assistant(said.unwrap_or_default());
///         Ok(ChatResponse::new(message))
///     }
/// }
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), ModelError> {
/// # let request = ChatRequest::new([Message::user("Hello?")]);
/// # assert_eq!(Echo.chat(request).await?.text(), "Hello?");
/// # Ok(())
/// # }
/// ```
#[async_trait]
pub trait ChatModel: Send + Sync + 'static {
    /// The model's name, for traces.
    fn name(&self) -> &str;

    /// The provider's name, for traces: as OpenTelemetry's conventions spell it (`openai`, `anthropic`, …).
    #[allow(clippy::unnecessary_literal_bound)] // others have their name in a field
    fn provider(&self) -> &str {
        "unknown"
    }

    /// Returns true if the model obeys the schema in [`ChatRequest::output`], even when the request also has tools. An agent with
    /// `answer:` then requests that schema. Otherwise it offers a tool through which the model gives its answer.
    fn native_output(&self, _shape: &OutputSpec) -> bool {
        false
    }

    /// How many tokens it can read and write at once, if that is known: what keeping a conversation within it goes by.
    fn context_tokens(&self) -> Option<u64> {
        None
    }

    /// Answers.
    async fn chat(&self, request: ChatRequest) -> Result<ChatResponse, ModelError>;

    /// Answers piece by piece. A model that cannot gives its text, and each part of the answer, as one piece.
    async fn stream(&self, request: ChatRequest) -> Result<ChatStream, ModelError> {
        let response = self.chat(request).await?;
        Ok(Box::pin(futures_util::stream::iter(response.into_chunks().map(Ok))) as ChatStream)
    }
}

#[async_trait]
impl<M: ChatModel + ?Sized> ChatModel for Arc<M> {
    fn name(&self) -> &str {
        (**self).name()
    }

    fn provider(&self) -> &str {
        (**self).provider()
    }

    fn native_output(&self, shape: &OutputSpec) -> bool {
        (**self).native_output(shape)
    }

    fn context_tokens(&self) -> Option<u64> {
        (**self).context_tokens()
    }

    async fn chat(&self, request: ChatRequest) -> Result<ChatResponse, ModelError> {
        (**self).chat(request).await
    }

    async fn stream(&self, request: ChatRequest) -> Result<ChatStream, ModelError> {
        (**self).stream(request).await
    }
}

/// Why a model did not answer. None has a key or another secret in it.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ModelError {
    /// The provider could not be reached, or was too busy. Another attempt may help.
    #[error("the model `{model}` did not answer: {reason}")]
    Unavailable {
        /// The model.
        model: String,
        /// What happened.
        reason: String,
        /// The error beneath, where there is one.
        #[source]
        source: Option<Arc<dyn Error + Send + Sync>>,
    },
    /// The provider refused the request: another attempt would meet the same.
    #[error("the model `{model}` refused: {reason}")]
    Refused {
        /// The model.
        model: String,
        /// What it said.
        reason: String,
    },
    /// The conversation is longer than the model can read: a shorter one may be answered.
    #[error("the conversation is too long for the model `{model}`: {reason}")]
    TooLong {
        /// The model.
        model: String,
        /// What the provider said.
        reason: String,
    },
    /// The answer makes no sense.
    #[error("the answer of the model `{model}` cannot be used: {reason}")]
    BadAnswer {
        /// The model.
        model: String,
        /// What is wrong with it.
        reason: String,
    },
    /// A recording cannot be read or written, or does not have the request.
    #[error("the recording `{file}` cannot be used: {reason}")]
    Recording {
        /// The file.
        file: String,
        /// What is wrong.
        reason: String,
    },
    /// A scripted model has nothing left to say.
    #[error("the script of the model `{model}` is exhausted: it was asked {asked} times")]
    ScriptExhausted {
        /// The model.
        model: String,
        /// How often it was asked, this time included.
        asked: usize,
    },
}

impl ModelError {
    /// Whether another attempt may help.
    pub fn is_transient(&self) -> bool {
        matches!(self, Self::Unavailable { .. })
    }
}
