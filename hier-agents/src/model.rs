//! Models that answer conversations: the trait, its requests and its errors.

use std::collections::BTreeSet;
use std::error::Error;
use std::pin::Pin;
use std::sync::Arc;

use async_trait::async_trait;
use futures_core::Stream;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::options::ModelOptions;
use hier_checkpoint::message::{BadAnswer, ChatChunk, ChatResponse, Messages};

/// The description of a tool that a model receives.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ToolSpec {
    /// The name under which the model calls the tool.
    pub name: String,
    /// The purpose of the tool, for the model.
    pub description: String,
    /// The JSON Schema of the arguments. It must describe an object with a property for each argument.
    pub parameters: Value,
}

/// A schema that the reply of a model must match.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct OutputSpec {
    /// The name of the schema.
    pub name: String,
    /// The JSON Schema of the reply.
    pub schema: Value,
}

impl OutputSpec {
    /// Creates the schema of the type `T` under this name. The name may contain ASCII letters, digits, `_` and `-`.
    ///
    /// ```
    /// # use hier_agents::OutputSpec;
    /// #[derive(serde::Deserialize, schemars::JsonSchema)]
    /// struct Verdict {
    ///     accepted: bool,
    /// }
    ///
    /// let output = OutputSpec::of_type::<Verdict>("verdict");
    /// assert_eq!(output.schema["properties"]["accepted"]["type"], "boolean");
    /// ```
    pub fn of_type<T: schemars::JsonSchema>(name: impl Into<String>) -> Self {
        Self { name: name.into(), schema: crate::schema::schema_of::<T>() }
    }
}

/// A request to a model.
///
/// ```
/// use hier_agents::{ChatRequest, Message, ModelOptions};
///
/// let request = ChatRequest::new([Message::user("Say hello.")]).options(ModelOptions::new().max_tokens(50));
/// assert_eq!(request.messages.len(), 1);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
#[must_use]
pub struct ChatRequest {
    /// The conversation so far.
    pub messages: Messages,
    /// The tools that the model may call.
    pub tools: Arc<[ToolSpec]>,
    /// The names of the tools that the provider does not show to the model until the provider's own tool search finds
    /// them. A provider without such a search shows them from the beginning, like the other tools.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub deferred: BTreeSet<String>,
    /// The schema that the reply must match. `None` if the reply may be any text.
    pub output: Option<OutputSpec>,
    /// The options of the request.
    pub options: ModelOptions,
}

impl ChatRequest {
    /// Creates a request for the next message of this conversation.
    pub fn new(messages: impl Into<Messages>) -> Self {
        Self { messages: messages.into(), ..Self::default() }
    }

    /// Sets the tools that the model may call.
    pub fn tools(self, tools: impl Into<Arc<[ToolSpec]>>) -> Self {
        Self { tools: tools.into(), ..self }
    }

    /// Sets the names of the tools that the model sees only after the provider's own search has found them. See
    /// [`ChatRequest::deferred`](Self#structfield.deferred).
    pub fn deferred<N: Into<String>>(self, names: impl IntoIterator<Item = N>) -> Self {
        Self { deferred: names.into_iter().map(Into::into).collect(), ..self }
    }

    /// Sets the schema that the reply must match. With `None`, the reply may be any text.
    pub fn output(self, output: impl Into<Option<OutputSpec>>) -> Self {
        Self { output: output.into(), ..self }
    }

    /// Sets the options of the request.
    pub fn options(self, options: ModelOptions) -> Self {
        Self { options, ..self }
    }
}

impl From<BadAnswer> for ModelError {
    fn from(BadAnswer { model, reason }: BadAnswer) -> Self {
        Self::BadAnswer { model, reason }
    }
}

/// A streamed reply. The last chunk is [`ChatChunk::Done`], which contains the whole reply.
pub type ChatStream = Pin<Box<dyn Stream<Item = Result<ChatChunk, ModelError>> + Send>>;

/// A chat model. The trait is object-safe, so a context can hold an `Arc<dyn ChatModel>`. Implement it with
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
    /// Returns the name of the model, for traces and prices.
    fn name(&self) -> &str;

    /// Returns the name of the provider for traces and prices, as OpenTelemetry's conventions spell it: `openai`,
    /// `anthropic` and so on.
    #[allow(clippy::unnecessary_literal_bound)] // other implementations return a field
    fn provider(&self) -> &str {
        "unknown"
    }

    /// Returns true if the provider can enforce the schema `_shape` on the reply to a request that also has tools. An
    /// agent with a typed answer calls this method with the schema of the answer. If the method returns true, the agent
    /// sends the schema in [`ChatRequest::output`]. If it returns false, the agent offers the model the tool
    /// `final_answer`, whose arguments have the schema. Defaults to false.
    fn native_output(&self, _shape: &OutputSpec) -> bool {
        false
    }

    /// Returns the size of the model's context in tokens, or `None` if the size is unknown. The layer
    /// [`Compact`](crate::Compact) keeps requests within this size.
    fn context_tokens(&self) -> Option<u64> {
        None
    }

    /// Returns true if the provider reports the cost of each reply in [`Usage::cost`](crate::Usage). A cost limit then
    /// works without a price for the model. Defaults to false.
    fn reports_cost(&self) -> bool {
        false
    }

    /// Returns true if the provider can search the [deferred](ChatRequest::deferred) tools of a request. If true, an
    /// agent with the option `search` leaves the search to the provider. If false, the agent offers the model the tool
    /// `search_tools`. Defaults to false.
    fn searches_tools(&self) -> bool {
        false
    }

    /// Sends a request and returns the reply.
    ///
    /// Cancel safety: hier drops the future if the run is cancelled or the node times out.
    async fn chat(&self, request: ChatRequest) -> Result<ChatResponse, ModelError>;

    /// Sends a request and streams the reply. The default implementation calls [`chat`](Self::chat), and then streams
    /// the chunks that [`ChatResponse::into_chunks`] returns: the reasoning, the text, the tool calls and the whole
    /// reply.
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

    fn reports_cost(&self) -> bool {
        (**self).reports_cost()
    }

    fn searches_tools(&self) -> bool {
        (**self).searches_tools()
    }

    async fn chat(&self, request: ChatRequest) -> Result<ChatResponse, ModelError> {
        (**self).chat(request).await
    }

    async fn stream(&self, request: ChatRequest) -> Result<ChatStream, ModelError> {
        (**self).stream(request).await
    }
}

/// Chooses a model of the context.
pub(crate) type ChooseModel<C> = Arc<dyn for<'a> Fn(&'a C) -> &'a (dyn ChatModel + 'static) + Send + Sync>;

/// An error of a model. Its message never contains an API key or another secret.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ModelError {
    /// The provider was unreachable or busy. A retry may succeed.
    #[error("the model `{model}` is unavailable: {reason}")]
    Unavailable {
        /// The name of the model.
        model: String,
        /// The reason.
        reason: String,
        /// The underlying error. `None` if only the reason is known.
        #[source]
        source: Option<Arc<dyn Error + Send + Sync>>,
    },
    /// The provider rejected the request. A retry of the same request would fail again.
    #[error("the request to the model `{model}` failed: {reason}")]
    Refused {
        /// The name of the model.
        model: String,
        /// The provider's explanation.
        reason: String,
    },
    /// The conversation exceeds the model's context. A request with a shorter conversation may succeed.
    #[error("the conversation is too long for the model `{model}`: {reason}")]
    TooLong {
        /// The name of the model.
        model: String,
        /// The provider's explanation.
        reason: String,
    },
    /// The reply cannot be used, for example because it is not in the provider's format.
    #[error("the reply of the model `{model}` cannot be used: {reason}")]
    BadAnswer {
        /// The name of the model.
        model: String,
        /// The reason.
        reason: String,
    },
    /// A test's recording of a model's replies cannot be read or written, or it does not contain the request.
    #[error("the recording `{file}` cannot be used: {reason}")]
    Recording {
        /// The path of the file.
        file: String,
        /// The reason.
        reason: String,
    },
    /// A scripted model in a test has no replies left.
    #[error("the script of the model `{model}` has no reply for request {asked}: add a reply to the script")]
    ScriptExhausted {
        /// The name of the model.
        model: String,
        /// The number of the request, counted from 1.
        asked: usize,
    },
}

impl ModelError {
    /// Returns true if a retry may succeed.
    pub fn is_transient(&self) -> bool {
        matches!(self, Self::Unavailable { .. })
    }
}
