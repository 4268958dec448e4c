//! Layers around the calls of models and tools.

mod compacting;
mod inherited;
mod limits;
mod models;
mod order;
mod redacted;
mod repeats;
mod returned;
mod secrets;
mod tools;

use std::sync::{Arc, Mutex};

use hier_agents::prelude::*;
use hier_agents::{ChatChunk, ChatModel, ChatRequest, ChatResponse, ChatStream, ModelError};
use hier_core::graph::CompiledGraph;
use hier_core::state::Values;
use hier_core::{Event, async_trait};

/// The calls in order.
#[derive(Clone, Default)]
pub(crate) struct Log(Arc<Mutex<Vec<String>>>);

impl Log {
    pub(crate) fn note(&self, what: impl Into<String>) {
        self.0.lock().unwrap().push(what.into());
    }

    pub(crate) fn take(&self) -> Vec<String> {
        std::mem::take(&mut *self.0.lock().unwrap())
    }
}

/// One answer of a model.
#[derive(Clone)]
pub(crate) enum Try {
    /// It answers, in these pieces.
    Says(Vec<&'static str>),
    /// It could not be reached, after these pieces.
    Busy(Vec<&'static str>),
    /// It refuses.
    Refuses,
}

/// A model with scripted answers and failures.
#[derive(Clone)]
pub(crate) struct Moody {
    name: &'static str,
    tries: Arc<Mutex<Vec<Try>>>,
    pub(crate) asked: Arc<Mutex<Vec<ChatRequest>>>,
}

impl Moody {
    pub(crate) fn new(name: &'static str, tries: impl IntoIterator<Item = Try>) -> Self {
        let tries = tries.into_iter().collect();
        Self { name, tries: Arc::new(Mutex::new(tries)), asked: Arc::default() }
    }

    pub(crate) fn call_count(&self) -> usize {
        self.asked.lock().unwrap().len()
    }

    fn next(&self, request: ChatRequest) -> Try {
        self.asked.lock().unwrap().push(request);
        let mut tries = self.tries.lock().unwrap();
        assert!(!tries.is_empty(), "{} is asked once more", self.name);
        tries.remove(0)
    }

    fn busy(&self) -> ModelError {
        ModelError::Unavailable { model: self.name.to_owned(), reason: "busy".to_owned(), source: None }
    }

    fn refused(&self) -> ModelError {
        ModelError::Refused { model: self.name.to_owned(), reason: "no".to_owned() }
    }
}

#[async_trait]
impl ChatModel for Moody {
    fn name(&self) -> &str {
        self.name
    }

    async fn chat(&self, request: ChatRequest) -> Result<ChatResponse, ModelError> {
        match self.next(request) {
            Try::Says(pieces) => Ok(ChatResponse::new(Message::assistant(pieces.concat()))),
            Try::Busy(_) => Err(self.busy()),
            Try::Refuses => Err(self.refused()),
        }
    }

    async fn stream(&self, request: ChatRequest) -> Result<ChatStream, ModelError> {
        let text = |pieces: &[&str]| -> Vec<Result<ChatChunk, ModelError>> {
            pieces.iter().map(|piece| Ok(ChatChunk::Text((*piece).to_owned()))).collect()
        };
        let pieces = match self.next(request) {
            Try::Says(said) => {
                let whole = ChatResponse::new(Message::assistant(said.concat()));
                text(&said).into_iter().chain([Ok(ChatChunk::Done(whole))]).collect()
            }
            Try::Busy(said) => text(&said).into_iter().chain([Err(self.busy())]).collect(),
            Try::Refuses => return Err(self.refused()),
        };
        let pieces: Vec<_> = pieces;
        Ok(Box::pin(futures_util::stream::iter(pieces)))
    }
}

/// The streamed chunks.
#[derive(Debug, Default)]
pub(crate) struct StreamedChunks {
    /// The texts of pieces, by the id of their answer, in order.
    pub(crate) texts: Vec<(String, String)>,
    /// The ends of answers.
    pub(crate) ends: Vec<ChatResponse>,
    /// The pieces of arguments.
    pub(crate) arguments: Vec<String>,
}

impl StreamedChunks {
    /// Returns all streamed text.
    pub(crate) fn text(&self) -> String {
        self.texts.iter().map(|(_, text)| &**text).collect()
    }
}

/// Runs an agent, and listens to what its models say.
pub(crate) async fn heard<S: Values + Unpin, C: Send + Sync + 'static>(
    graph: &CompiledGraph<S, C>,
    input: impl hier_core::graph::GraphInput<S, hier_core::graph::FullState>,
    context: C,
) -> (StreamedChunks, Result<Outcome<S>, RunError>) {
    let mut events = graph.stream(input).context(context).modes([StreamMode::Messages]);
    let mut received = StreamedChunks::default();
    while let Some(event) = events.next().await {
        let spoken = match event {
            Ok(Event::Message(spoken)) => spoken,
            Ok(_) => continue,
            Err(error) => return (received, Err(error)),
        };
        match spoken.chunk {
            ChatChunk::Text(text) => received.texts.push((spoken.id, text)),
            ChatChunk::CallArguments { text, .. } => received.arguments.push(text),
            ChatChunk::Done(response) => received.ends.push(response),
            _ => {}
        }
    }
    let outcome = events.outcome().await;
    (received, outcome)
}
