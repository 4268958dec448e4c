//! A model that says what a script says: for tests, examples and runs without a network.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures_util::stream;

use hier_agents::{Body, ChatChunk, ChatModel, ChatRequest, ChatResponse, ChatStream, Message, ModelError, OutputSpec};
use hier_core::async_trait;

use super::recorded::anonymous;

/// A model that answers from a list, in its order, whoever asks, or from a function. A clone is another handle to the
/// same model, so a test can keep one and look at what was asked.
///
/// It remembers every request. A request shares its conversation with the state, so that costs next to nothing;
/// [`without_requests`](Self::without_requests) turns it off. Streamed, an answer comes word by word, its reasoning
/// ([`Message::with_reasoning`]) before its text, then its calls.
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
#[derive(Clone)]
pub struct ScriptedModel {
    name: Arc<str>,
    native_output: bool,
    shared: Arc<Shared>,
}

struct Shared {
    /// None: the answers are in the log's list.
    react: Option<React>,
    log: Mutex<Log>,
}

type React = Box<dyn Fn(&ChatRequest) -> Result<Message, ModelError> + Send + Sync>;

struct Log {
    replies: VecDeque<Message>,
    asked: usize,
    /// None: requests are not remembered.
    requests: Option<Vec<ChatRequest>>,
}

impl ScriptedModel {
    /// A model that gives these answers, one a request. Asked once more, it fails with
    /// [`ModelError::ScriptExhausted`].
    pub fn new(replies: impl IntoIterator<Item = Message>) -> Self {
        Self::make(None, replies.into_iter().collect())
    }

    /// A model that says again what the model said in this conversation, in order: to replay a stored thread.
    ///
    /// ```
    /// # use hier_agents::{Message, ToolCall};
    /// # use hier_testkit::ScriptedModel;
    /// let stored = [Message::user("Hello?"), Message::assistant("Hello!"), Message::user("Bye.")];
    /// assert_eq!(ScriptedModel::repeating(&stored).remaining(), Some(1));
    /// ```
    pub fn repeating<'a>(messages: impl IntoIterator<Item = &'a Message>) -> Self {
        let said = messages.into_iter().filter(|message| matches!(message.body, Body::Assistant { .. }));
        Self::new(said.map(anonymous))
    }

    /// A model that answers each request with what the function returns for it.
    pub fn reacting(react: impl Fn(&ChatRequest) -> Message + Send + Sync + 'static) -> Self {
        Self::try_reacting(move |request| Ok(react(request)))
    }

    /// As [`reacting`](Self::reacting), with a function that can make the model fail.
    pub fn try_reacting(react: impl Fn(&ChatRequest) -> Result<Message, ModelError> + Send + Sync + 'static) -> Self {
        Self::make(Some(Box::new(react)), VecDeque::new())
    }

    fn make(react: Option<React>, replies: VecDeque<Message>) -> Self {
        let log = Mutex::new(Log { replies, asked: 0, requests: Some(Vec::new()) });
        Self { name: "scripted".into(), native_output: false, shared: Arc::new(Shared { react, log }) }
    }

    /// The same model by another name: that of traces and errors.
    #[must_use]
    pub fn named(self, name: &str) -> Self {
        Self { name: name.into(), ..self }
    }

    /// The same model, which says that it keeps to the shape that a request asks for.
    #[must_use]
    pub fn native_output(self) -> Self {
        Self { native_output: true, ..self }
    }

    /// The same model, which from now on remembers no requests. Those that it has are forgotten.
    #[must_use]
    pub fn without_requests(self) -> Self {
        self.log().requests = None;
        self
    }

    /// The requests, in order.
    pub fn requests(&self) -> Vec<ChatRequest> {
        self.log().requests.clone().unwrap_or_default()
    }

    /// How often it was asked.
    pub fn asked(&self) -> usize {
        self.log().asked
    }

    /// How many answers its list still has; none if a function answers.
    pub fn remaining(&self) -> Option<usize> {
        self.shared.react.is_none().then(|| self.log().replies.len())
    }

    /// Adds an answer at the end of its list. Does nothing useful if a function answers.
    pub fn push(&self, reply: Message) {
        self.log().replies.push_back(reply);
    }

    fn log(&self) -> MutexGuard<'_, Log> {
        self.shared.log.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn answer(&self, request: ChatRequest) -> Result<ChatResponse, ModelError> {
        let message = if let Some(react) = &self.shared.react {
            // Outside of the lock: the function may look at this very model.
            let reply = react(&request);
            self.log().note(request);
            reply?
        } else {
            let mut log = self.log();
            log.note(request);
            let asked = log.asked;
            let exhausted = || ModelError::ScriptExhausted { model: self.name.to_string(), asked };
            log.replies.pop_front().ok_or_else(exhausted)?
        };
        if !matches!(message.body, Body::Assistant { .. }) {
            let reason = "it is no message of the assistant; make it with `Message::assistant` or `Message::calls`";
            return Err(ModelError::BadAnswer { model: self.name.to_string(), reason: reason.to_owned() });
        }
        Ok(ChatResponse::new(message).with_model(self.name.to_string()))
    }
}

impl Log {
    fn note(&mut self, request: ChatRequest) {
        self.asked += 1;
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

    async fn chat(&self, request: ChatRequest) -> Result<ChatResponse, ModelError> {
        self.answer(request)
    }

    async fn stream(&self, request: ChatRequest) -> Result<ChatStream, ModelError> {
        self.answer(request).map(in_words)
    }
}

/// A whole answer as a stream: its reasoning and its text word by word, its calls, then itself.
pub(super) fn in_words(response: ChatResponse) -> ChatStream {
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
            .field("asked", &self.asked())
            .field("remaining", &self.remaining())
            .finish_non_exhaustive()
    }
}
