//! A model that records its replies in a file.

use std::fmt;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures_util::StreamExt;

use super::recording::{RecordedLine, Recording};
use super::scripted::stream_words;
use hier_agents::{ChatChunk, ChatModel, ChatRequest, ChatResponse, ChatStream, ModelError};
use hier_core::async_trait;

/// A model that records the replies of a real model in a file, or replies from such a file. A test can thus replay a
/// real conversation without a network and without costs.
///
/// To find the reply to a request, the model compares messages (without ids), tools, output schema and options. If the
/// same request was recorded several times, the model returns the replies in the recorded order and then repeats the
/// last one.
///
/// The file has one line of JSON per reply. The file contains the whole conversation, so review it before you share it.
///
/// ```
/// # use std::sync::Arc;
/// # use hier_agents::{ChatModel, ChatRequest, Message, ModelError};
/// # use hier_testkit::{RecordedModel, ScriptedModel};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), ModelError> {
/// # let file = std::env::temp_dir().join(format!("hier-recorded-{}.jsonl", std::process::id()));
/// let request = ChatRequest::new([Message::user("Hello?")]);
/// let real = ScriptedModel::new([Message::assistant("Hello!")]); // in place of a real model
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
pub struct RecordedModel(Arc<RecordingState>);

struct RecordingState {
    path: PathBuf,
    name: String,
    provider: String,
    reports_cost: bool,
    /// The model that replies to requests that are not in the recording.
    model: Option<Arc<dyn ChatModel>>,
    recording: Mutex<Recording>,
    /// `None` if nothing is recorded.
    file: Option<Mutex<File>>,
}

impl RecordedModel {
    /// Creates a model that sends each request to `model` and records the replies in this file. Overwrites an existing
    /// file.
    pub fn record(model: Arc<dyn ChatModel>, path: impl AsRef<Path>) -> Result<Self, ModelError> {
        let path = path.as_ref();
        let file = File::create(path).map_err(|error| unusable(path, &error))?;
        Ok(Self::make(path, Some(model), Recording::default(), Some(file)))
    }

    /// Creates a model that replies only from this file. A request that is not in the file fails.
    pub fn replay(path: impl AsRef<Path>) -> Result<Self, ModelError> {
        let path = path.as_ref();
        let text = std::fs::read_to_string(path).map_err(|error| unusable(path, &error))?;
        let recording = Recording::read(&text).map_err(|reason| unusable(path, &reason))?;
        Ok(Self::make(path, None, recording, None))
    }

    /// Creates a model that replies from this file. If the file does not contain a request, `model` replies, and this
    /// model appends the reply to the file. If the file does not exist, creates it.
    ///
    /// # Errors
    ///
    /// Fails with [`ModelError::Recording`] if the file cannot be opened, or if it is not a recording.
    pub fn complete(model: Arc<dyn ChatModel>, path: impl AsRef<Path>) -> Result<Self, ModelError> {
        let path = path.as_ref();
        let mut file =
            File::options().create(true).read(true).append(true).open(path).map_err(|error| unusable(path, &error))?;
        let Self(shared) = Self::replay(path)?;
        end_last_line(&mut file).map_err(|error| unusable(path, &error))?;
        let recording = std::mem::take(&mut *shared.recording());
        Ok(Self::make(path, Some(model), recording, Some(file)))
    }

    fn make(path: &Path, model: Option<Arc<dyn ChatModel>>, recording: Recording, file: Option<File>) -> Self {
        let (name, provider) = match &model {
            Some(model) => (model.name().to_owned(), model.provider().to_owned()),
            None => recording.recorded_model(),
        };
        let reports_cost = model.as_ref().map_or_else(|| recording.has_costs(), ChatModel::reports_cost);
        let (path, recording, file) = (path.to_owned(), Mutex::new(recording), file.map(Mutex::new));
        Self(Arc::new(RecordingState { path, name, provider, reports_cost, model, recording, file }))
    }

    /// Returns the number of replies in the recording.
    pub fn len(&self) -> usize {
        self.0.recording().len()
    }

    /// Returns true if the recording is empty.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl RecordingState {
    fn recording(&self) -> MutexGuard<'_, Recording> {
        self.recording.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the recorded reply, or the model that must reply.
    fn find(&self, request: &ChatRequest) -> Result<Lookup, ModelError> {
        let line = RecordedLine::of_request(request).map_err(|error| unusable(&self.path, &error))?;
        let mut recording = self.recording();
        match &self.model {
            // A new recording is not replayed, since the model may answer an equal request differently.
            Some(model) if recording.only_records() => Ok(Lookup::Ask(model.clone(), line)),
            model => match (recording.next_answer(&line), model) {
                (Some(response), _) => Ok(Lookup::Answer(response)),
                (None, Some(model)) => Ok(Lookup::Ask(model.clone(), line)),
                (None, None) => Err(unusable(&self.path, &recording.describe_miss(&line))),
            },
        }
    }

    fn record_answer(&self, line: RecordedLine, response: &ChatResponse) -> Result<(), ModelError> {
        let line = line.with_answer(&self.name, &self.provider, response);
        let mut text = serde_json::to_string(&line).map_err(|error| unusable(&self.path, &error))?;
        text.push('\n');
        if let Some(file) = &self.file {
            let mut file = file.lock().unwrap_or_else(PoisonError::into_inner);
            file.write_all(text.as_bytes()).map_err(|error| unusable(&self.path, &error))?;
        }
        self.recording().add(line);
        Ok(())
    }
}

/// Adds the line break at the end of a file, which editors may remove.
fn end_last_line(file: &mut File) -> io::Result<()> {
    if file.metadata()?.len() == 0 {
        return Ok(());
    }
    let mut last = [0];
    file.seek(SeekFrom::End(-1))?;
    file.read_exact(&mut last)?;
    if last == *b"\n" { Ok(()) } else { file.write_all(b"\n") }
}

enum Lookup {
    Answer(ChatResponse),
    Ask(Arc<dyn ChatModel>, RecordedLine),
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

    fn reports_cost(&self) -> bool {
        self.0.reports_cost
    }

    async fn chat(&self, request: ChatRequest) -> Result<ChatResponse, ModelError> {
        match self.0.find(&request)? {
            Lookup::Answer(response) => Ok(response),
            Lookup::Ask(model, line) => {
                let response = model.chat(request).await?;
                self.0.record_answer(line, &response)?;
                Ok(response)
            }
        }
    }

    async fn stream(&self, request: ChatRequest) -> Result<ChatStream, ModelError> {
        let (model, line) = match self.0.find(&request)? {
            Lookup::Answer(response) => return Ok(stream_words(response)),
            Lookup::Ask(model, line) => (model, line),
        };
        let (shared, mut line) = (self.0.clone(), Some(line));
        let chunks = model.stream(request).await?.map(move |chunk| {
            if let Ok(ChatChunk::Done(response)) = &chunk
                && let Some(line) = line.take()
            {
                shared.record_answer(line, response)?;
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
