//! Conversations with a model, kept in a file and played again without it.

use std::fmt;
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures_util::StreamExt;

use super::scripted::in_words;
use super::tape::{Line, Tape};
use hier_agents::{ChatChunk, ChatModel, ChatRequest, ChatResponse, ChatStream, Message, ModelError};
use hier_core::async_trait;

/// A model whose answers are kept in a file, or come from one: real conversations in tests, without a network and
/// without costs.
///
/// An answer is found by the request: messages, tools, shape and options, but not the messages' ids, which differ each
/// time. Equal requests get their answers in the order of the recording, then the last one again. The file has one line
/// of JSON an answer; look through it before you share it, for it has all that was said.
///
/// ```
/// # use std::sync::Arc;
/// # use hier_agents::{ChatModel, ChatRequest, Message, ModelError};
/// # use hier_testkit::{RecordedModel, ScriptedModel};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), ModelError> {
/// # let file = std::env::temp_dir().join(format!("hier-recorded-{}.jsonl", std::process::id()));
/// let request = ChatRequest::new([Message::user("Hello?")]);
/// let real = ScriptedModel::new([Message::assistant("Hello!")]); // think of one that costs money
/// RecordedModel::record(Arc::new(real), &file)?.chat(request.clone()).await?;
///
/// let again = RecordedModel::replay(&file)?;
/// assert_eq!(again.chat(request).await?.message, Message::assistant("Hello!"));
/// assert!(again.chat(ChatRequest::default()).await.is_err(), "that was not recorded");
/// # std::fs::remove_file(&file).ok();
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct RecordedModel(Arc<Shared>);

struct Shared {
    path: PathBuf,
    name: String,
    provider: String,
    /// The model that answers requests that the tape does not have.
    model: Option<Arc<dyn ChatModel>>,
    tape: Mutex<Tape>,
    /// Where answers are written to; none if nothing is recorded.
    file: Option<Mutex<File>>,
}

impl RecordedModel {
    /// Asks the model, always, and keeps its answers in this file, which is begun anew.
    pub fn record(model: Arc<dyn ChatModel>, path: impl AsRef<Path>) -> Result<Self, ModelError> {
        let path = path.as_ref();
        let file = File::create(path).map_err(|error| unusable(path, &error))?;
        Ok(Self::make(path, Some(model), Tape::default(), Some(file)))
    }

    /// Answers from this file, and asks nobody.
    pub fn replay(path: impl AsRef<Path>) -> Result<Self, ModelError> {
        let path = path.as_ref();
        let text = std::fs::read_to_string(path).map_err(|error| unusable(path, &error))?;
        let tape = Tape::read(&text).map_err(|reason| unusable(path, &reason))?;
        Ok(Self::make(path, None, tape, None))
    }

    /// Answers from this file (which need not be there yet), asks the model what it does not have, and adds that.
    pub fn complete(model: Arc<dyn ChatModel>, path: impl AsRef<Path>) -> Result<Self, ModelError> {
        let path = path.as_ref();
        let file = File::options().create(true).append(true).open(path).map_err(|error| unusable(path, &error))?;
        let Self(shared) = Self::replay(path)?;
        let tape = std::mem::take(&mut *shared.tape());
        Ok(Self::make(path, Some(model), tape, Some(file)))
    }

    fn make(path: &Path, model: Option<Arc<dyn ChatModel>>, tape: Tape, file: Option<File>) -> Self {
        let (name, provider) = match &model {
            Some(model) => (model.name().to_owned(), model.provider().to_owned()),
            None => tape.speaker(),
        };
        let (path, file) = (path.to_owned(), file.map(Mutex::new));
        Self(Arc::new(Shared { path, name, provider, model, tape: Mutex::new(tape), file }))
    }

    /// The number of answers in the recording.
    pub fn len(&self) -> usize {
        self.0.tape().len()
    }

    /// Whether nothing is recorded.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl Shared {
    fn tape(&self) -> MutexGuard<'_, Tape> {
        self.tape.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The recorded answer; or the model that is to be asked, with what is to be kept of the request.
    fn find(&self, request: &ChatRequest) -> Result<Found, ModelError> {
        let line = Line::of_request(request).map_err(|error| unusable(&self.path, &error))?;
        let mut tape = self.tape();
        match &self.model {
            // What is being recorded from the beginning is not played back: the model may answer otherwise this time.
            Some(model) if tape.only_records() => Ok(Found::Ask(model.clone(), line)),
            model => match (tape.next(&line), model) {
                (Some(response), _) => Ok(Found::Answer(response)),
                (None, Some(model)) => Ok(Found::Ask(model.clone(), line)),
                (None, None) => Err(unusable(&self.path, &tape.miss(&line))),
            },
        }
    }

    fn keep(&self, line: Line, response: &ChatResponse) -> Result<(), ModelError> {
        let line = line.answered(&self.name, &self.provider, response);
        let mut text = serde_json::to_string(&line).map_err(|error| unusable(&self.path, &error))?;
        text.push('\n');
        if let Some(file) = &self.file {
            let mut file = file.lock().unwrap_or_else(PoisonError::into_inner);
            file.write_all(text.as_bytes()).map_err(|error| unusable(&self.path, &error))?;
        }
        self.tape().add(line);
        Ok(())
    }
}

enum Found {
    Answer(ChatResponse),
    Ask(Arc<dyn ChatModel>, Line),
}

fn unusable(path: &Path, reason: &dyn fmt::Display) -> ModelError {
    ModelError::Recording { file: path.display().to_string(), reason: reason.to_string() }
}

#[async_trait]
impl ChatModel for RecordedModel {
    fn name(&self) -> &str {
        &self.0.name
    }

    fn provider(&self) -> &str {
        &self.0.provider
    }

    async fn chat(&self, request: ChatRequest) -> Result<ChatResponse, ModelError> {
        match self.0.find(&request)? {
            Found::Answer(response) => Ok(response),
            Found::Ask(model, line) => {
                let response = model.chat(request).await?;
                self.0.keep(line, &response)?;
                Ok(response)
            }
        }
    }

    async fn stream(&self, request: ChatRequest) -> Result<ChatStream, ModelError> {
        let (model, line) = match self.0.find(&request)? {
            Found::Answer(response) => return Ok(in_words(response)),
            Found::Ask(model, line) => (model, line),
        };
        let (shared, mut line) = (self.0.clone(), Some(line));
        let chunks = model.stream(request).await?.map(move |chunk| {
            if let Ok(ChatChunk::Done(response)) = &chunk
                && let Some(line) = line.take()
            {
                shared.keep(line, response)?;
            }
            chunk
        });
        Ok(Box::pin(chunks) as ChatStream)
    }
}

impl fmt::Debug for RecordedModel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RecordedModel")
            .field("file", &self.0.path)
            .field("name", &self.0.name)
            .field("answers", &self.len())
            .finish_non_exhaustive()
    }
}

/// Returns the message as a model sees it: without its id and the data of clients.
pub(super) fn anonymous(message: &Message) -> Message {
    Message { id: None, body: message.body.clone(), extra: serde_json::Map::new() }
}
