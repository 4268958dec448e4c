//! A model that replies from a script.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures_util::stream;

use hier_agents::{Body, ChatChunk, ChatModel, ChatRequest, ChatResponse, ChatStream, Message, ModelError, OutputSpec};
use hier_core::async_trait;

use super::recording::anonymous;

/// A model that takes its replies from a list or computes them with a function. Clones share the list and the stored
/// requests. A test can thus pass a clone to the graph and inspect the requests of the original.
///
/// ```
/// # use hier_agents::{ChatModel, ChatRequest, Message, ModelError};
/// # use hier_testkit::ScriptedModel;
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), ModelError> {
/// let model = ScriptedModel::new([Message::assistant("7 %")]);
/// let request = ChatRequest::new([Message::user("What is the rate?")]);
/// let answer = model.chat(request).await?;
/// assert_eq!(answer.message, Message::assistant("7 %"));
/// assert_eq!(model.requests()[0].messages.len(), 1);
/// assert_eq!(model.remaining(), Some(0));
/// # Ok(())
/// # }
/// ```
///
/// The model stores each request. To turn this off, call [`without_requests`](Self::without_requests). A stream
/// delivers reasoning ([`Message::with_reasoning`]) and text word by word, and then the tool calls.
#[derive(Clone)]
#[must_use]
pub struct ScriptedModel {
    name: Arc<str>,
    native_output: bool,
    searches_tools: bool,
    shared: Arc<ScriptedState>,
}

struct ScriptedState {
    /// `None` if the replies are in the list.
    react: Option<ReplyFn>,
    log: Mutex<RequestLog>,
}

type ReplyFn = Box<dyn Fn(&ChatRequest) -> Result<Message, ModelError> + Send + Sync>;

struct RequestLog {
    replies: VecDeque<Message>,
    call_count: usize,
    /// `None` if requests are not stored.
    requests: Option<Vec<ChatRequest>>,
}

impl ScriptedModel {
    /// Creates a model that returns these replies in order, one per request. Further requests fail with
    /// [`ModelError::ScriptExhausted`].
    pub fn new(replies: impl IntoIterator<Item = Message>) -> Self {
        Self::make(None, replies.into_iter().collect())
    }

    /// Creates a model that replies with the assistant messages of this conversation, for example to replay a stored
    /// thread.
    ///
    /// ```
    /// # use hier_agents::{Message, ToolCall};
    /// # use hier_testkit::ScriptedModel;
    /// let stored = [Message::user("Hello?"), Message::assistant("Hello!"), Message::user("Bye.")];
    /// assert_eq!(ScriptedModel::repeating(&stored).remaining(), Some(1));
    /// ```
    pub fn repeating<'a>(messages: impl IntoIterator<Item = &'a Message>) -> Self {
        let replies = messages.into_iter().filter(|message| matches!(message.body, Body::Assistant { .. }));
        Self::new(replies.map(anonymous))
    }

    /// Creates a model that replies to each request with the result of this function.
    pub fn reacting(react: impl Fn(&ChatRequest) -> Message + Send + Sync + 'static) -> Self {
        Self::try_reacting(move |request| Ok(react(request)))
    }

    /// Creates a model that replies to each request with the result of this function. If the function returns an error,
    /// the request fails with this error.
    pub fn try_reacting(react: impl Fn(&ChatRequest) -> Result<Message, ModelError> + Send + Sync + 'static) -> Self {
        Self::make(Some(Box::new(react)), VecDeque::new())
    }

    fn make(react: Option<ReplyFn>, replies: VecDeque<Message>) -> Self {
        let log = Mutex::new(RequestLog { replies, call_count: 0, requests: Some(Vec::new()) });
        let shared = Arc::new(ScriptedState { react, log });
        Self { name: "scripted".into(), native_output: false, searches_tools: false, shared }
    }

    /// Sets the name of the model, which traces and errors show. Defaults to `scripted`.
    pub fn named(self, name: &str) -> Self {
        Self { name: name.into(), ..self }
    }

    /// Makes [`ChatModel::native_output`] return true.
    pub fn native_output(self) -> Self {
        Self { native_output: true, ..self }
    }

    /// Makes [`ChatModel::searches_tools`] return true. Agents with the option `search` then send all of their tools
    /// and leave the search to the model.
    pub fn searches_tools(self) -> Self {
        Self { searches_tools: true, ..self }
    }

    /// Turns off the storage of requests and drops the stored ones.
    pub fn without_requests(self) -> Self {
        self.log().requests = None;
        self
    }

    /// Returns the stored requests in the order in which the model received them.
    pub fn requests(&self) -> Vec<ChatRequest> {
        self.log().requests.clone().unwrap_or_default()
    }

    /// Returns the number of requests that the model has received.
    pub fn call_count(&self) -> usize {
        self.log().call_count
    }

    /// Returns the number of replies that are left in the list. Returns `None` if a function computes the replies.
    pub fn remaining(&self) -> Option<usize> {
        self.shared.react.is_none().then(|| self.log().replies.len())
    }

    /// Adds a reply to the end of the list. Has no effect if a function computes the replies.
    pub fn push(&self, reply: Message) {
        self.log().replies.push_back(reply);
    }

    fn log(&self) -> MutexGuard<'_, RequestLog> {
        self.shared.log.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn answer(&self, request: ChatRequest) -> Result<ChatResponse, ModelError> {
        let message = if let Some(react) = &self.shared.react {
            // The lock is not held here, because the function may inspect this model.
            let reply = react(&request);
            self.log().record(request);
            reply?
        } else {
            let mut log = self.log();
            log.record(request);
            let asked = log.call_count;
            let exhausted = || ModelError::ScriptExhausted { model: self.name.to_string(), asked };
            log.replies.pop_front().ok_or_else(exhausted)?
        };
        if !matches!(message.body, Body::Assistant { .. }) {
            let reason = "the scripted reply is not an assistant message: use `Message::assistant` or `Message::calls`";
            return Err(ModelError::BadAnswer { model: self.name.to_string(), reason: reason.to_owned() });
        }
        Ok(ChatResponse::new(message).with_model(self.name.to_string()))
    }
}

impl RequestLog {
    fn record(&mut self, request: ChatRequest) {
        self.call_count += 1;
        if let Some(requests) = &mut self.requests {
            requests.push(request);
        }
    }
}

#[async_trait]
impl ChatModel for ScriptedModel {
    fn name(&self) -> &str {
        &self.name
    }

    fn provider(&self) -> &'static str {
        "scripted"
    }

    fn native_output(&self, _shape: &OutputSpec) -> bool {
        self.native_output
    }

    fn searches_tools(&self) -> bool {
        self.searches_tools
    }

    async fn chat(&self, request: ChatRequest) -> Result<ChatResponse, ModelError> {
        self.answer(request)
    }

    async fn stream(&self, request: ChatRequest) -> Result<ChatStream, ModelError> {
        self.answer(request).map(stream_words)
    }
}

/// Streams a reply: reasoning and text word by word, then the calls, then the complete reply.
pub(super) fn stream_words(response: ChatResponse) -> ChatStream {
    let words = |text: &str, piece: fn(String) -> ChatChunk| -> Vec<_> {
        text.split_inclusive(' ').map(|word| piece(word.to_owned())).collect()
    };
    let pieces = response.into_chunks().flat_map(move |chunk| match chunk {
        ChatChunk::Text(text) => words(&text, ChatChunk::Text),
        ChatChunk::Reasoning(text) => words(&text, ChatChunk::Reasoning),
        other => vec![other],
    });
    Box::pin(stream::iter(pieces.map(Ok)))
}

impl fmt::Debug for ScriptedModel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ScriptedModel")
            .field("name", &self.name)
            .field("call_count", &self.call_count())
            .field("remaining", &self.remaining())
            .finish_non_exhaustive()
    }
}
