//! Models that turn texts into vectors, for searching a store by meaning.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use hier_agents::ModelError;
use hier_core::async_trait;
use hier_core::graph::Retry;
use hier_core::store::{Embedder, StoreError};
use serde_json::{Value, json};

use crate::address::{self, Address};
use crate::error::{Failure, ParseModelError};
use crate::secret::shown;
use crate::server::{Key, Server};
use crate::{attempt, transport, wire};

/// A model behind an HTTP server that turns texts into vectors: the embedder of a store. Clones share the same model.
///
/// ```
/// use hier_core::store::{MemoryStore, StoreOptions};
/// use hier_models::Embeddings;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let embeddings = Embeddings::parse("ollama:nomic-embed-text")?;
/// let store = MemoryStore::new(StoreOptions::default().index(embeddings, ["text"])?);
/// # let _ = store;
/// # Ok(())
/// # }
/// ```
///
/// It retries temporary failures and never logs its key, like a [`Model`](crate::Model). Many texts are sent in several requests, one
/// after the other. If a text is longer than the model can read, only its beginning counts.
#[derive(Clone)]
pub struct Embeddings(Arc<Inner>);

#[derive(Clone)]
struct Inner {
    api: Api,
    server: Server,
    dimensions: Option<u32>,
    /// The most texts of a request.
    batch: usize,
}

/// What servers are asked for vectors like.
#[derive(Clone, Copy)]
enum Api {
    OpenAi,
    Ollama,
    Gemini,
}

/// All, by their names.
const ALL: [(&str, Api); 3] = [("openai", Api::OpenAi), ("ollama", Api::Ollama), ("gemini", Api::Gemini)];

/// What texts are for: some models make a difference.
#[derive(Clone, Copy)]
enum Purpose {
    Item,
    Query,
}

impl Embeddings {
    /// A model of OpenAI (`text-embedding-3-small`). The key is in `OPENAI_API_KEY`, unless [given](Self::key).
    pub fn openai(name: impl Into<String>) -> Self {
        Self::of(Api::OpenAi, name.into())
    }

    /// A model of an Ollama server, which is at `http://localhost:11434` unless [said otherwise](Self::url).
    pub fn ollama(name: impl Into<String>) -> Self {
        Self::of(Api::Ollama, name.into())
    }

    /// A model of Google's Gemini (`gemini-embedding-001`). The key is in `GEMINI_API_KEY`, unless [given](Self::key).
    pub fn gemini(name: impl Into<String>) -> Self {
        Self::of(Api::Gemini, name.into())
    }

    /// A model of a server that speaks like OpenAI's, at this address (`http://localhost:8080/v1`). It is sent no key
    /// unless one is [given](Self::key).
    pub fn at(url: impl Into<String>, name: impl Into<String>) -> Self {
        Self::make(Api::OpenAi, name.into(), url.into(), Key::None)
    }

    /// The model that a text names: `openai:text-embedding-3-small`, `gemini:…`, `ollama:nomic-embed-text`, or the URL of a
    /// server that speaks like OpenAI's, with the model's name behind `#`; with the dialect before it
    /// (`ollama+http://…`) if it speaks otherwise.
    pub fn parse(text: &str) -> Result<Self, ParseModelError> {
        Ok(match address::parse(text, &ALL)? {
            Address::Provider(api, name) => Self::of(api, name.to_owned()),
            Address::Url(api, url, name) => {
                Self::make(api.unwrap_or(Api::OpenAi), name.to_owned(), url.to_owned(), Key::None)
            }
        })
    }

    fn of(api: Api, name: String) -> Self {
        let wire = api.wire();
        Self::make(api, name, wire.url().to_owned(), Key::in_variable(wire.key_variable()))
    }

    fn make(api: Api, name: String, url: String, key: Key) -> Self {
        Self(Arc::new(Inner { api, server: Server::new(name, url, key), dimensions: None, batch: api.most() }))
    }

    fn with(mut self, set: impl FnOnce(&mut Server)) -> Self {
        Arc::make_mut(&mut self.0).server.set(set);
        self
    }

    /// The same model with this key. White space around it is dropped.
    #[must_use]
    pub fn key(self, key: impl Into<String>) -> Self {
        self.with(|server| server.key = Key::new(&key.into()))
    }

    /// The same model at another address. It is spoken to in the same way; a server that redirects is an error.
    #[must_use]
    pub fn url(self, url: impl Into<String>) -> Self {
        self.with(|server| server.url = url.into())
    }

    /// The same model, tried this often (3 times unless said), only where another attempt may help.
    #[must_use]
    pub fn retry(self, retry: impl Into<Retry>) -> Self {
        self.with(|server| server.retry = retry.into())
    }

    /// The same model, whose answers may take this long each (10 minutes unless said).
    #[must_use]
    pub fn timeout(self, timeout: Duration) -> Self {
        self.with(|server| server.timeout = timeout)
    }

    /// The same model, with vectors of this length: for models that can shorten theirs. A store that has vectors of another
    /// length does not find by the new ones.
    #[must_use]
    pub fn dimensions(mut self, dimensions: u32) -> Self {
        Arc::make_mut(&mut self.0).dimensions = Some(dimensions);
        self
    }

    /// Sets the maximum number of texts per request. Defaults to 256, and to 100 for Gemini. If a server refuses that many, it is sent
    /// half as many.
    #[must_use]
    pub fn batch(mut self, texts: usize) -> Self {
        Arc::make_mut(&mut self.0).batch = texts.max(1);
        self
    }

    async fn vectors(&self, texts: &[String], purpose: Purpose) -> Result<Vec<Vec<f32>>, StoreError> {
        let blank = texts.iter().position(|text| text.trim().is_empty());
        if let Some(place) = blank {
            let reason = "it is blank: leave it out".to_owned();
            return Err(StoreError::EmbeddingOf { place, reason });
        }
        let (mut vectors, mut most) = (Vec::with_capacity(texts.len()), self.0.batch);
        // True once the server has taken a text: what it refuses then, it refuses because of the texts.
        let mut takes_texts = false;
        while vectors.len() < texts.len() {
            let place = vectors.len();
            let rest = &texts[place..];
            let part = &rest[..fitting(rest, most)];
            match self.attempt(part, purpose).await {
                Ok(more) => {
                    takes_texts = true;
                    vectors.extend(more);
                }
                Err(refusal) if !refusal.is_of_texts => return Err(StoreError::Embedding(refusal.error.to_string())),
                Err(refusal) if !takes_texts && !matches!(refusal.error, ModelError::TooLong { .. }) => {
                    // Some servers answer 400 to everything that is wrong, such as a key.
                    if self.attempt(&[HARMLESS.to_owned()], purpose).await.is_err() {
                        return Err(StoreError::Embedding(refusal.error.to_string()));
                    }
                    takes_texts = true;
                }
                Err(_) if part.len() > 1 => most = part.len() / 2,
                Err(refusal) => vectors.push(self.cut(&part[0], purpose, place, refusal.error).await?),
            }
        }
        Ok(vectors)
    }

    /// The vector of the beginning of a text that is too long: as much of it as the model reads.
    async fn cut(
        &self,
        text: &str,
        purpose: Purpose,
        place: usize,
        mut error: ModelError,
    ) -> Result<Vec<f32>, StoreError> {
        let mut length = text.len();
        while length > SHORTEST && matches!(error, ModelError::TooLong { .. }) {
            length = floor(text, length / 2);
            match self.attempt(&[text[..length].to_owned()], purpose).await {
                Ok(mut vectors) => {
                    let (model, place, bytes) = (&self.0.server.name, place + 1, text.len());
                    tracing::warn!(model, place, bytes, length, "a text was cut to be embedded");
                    return vectors.pop().ok_or_else(|| StoreError::Embedding("there is no vector".to_owned()));
                }
                Err(refusal) => error = refusal.error,
            }
        }
        Err(StoreError::EmbeddingOf { place, reason: error.to_string() })
    }

    async fn attempt(&self, texts: &[String], purpose: Purpose) -> Result<Vec<Vec<f32>>, Refusal> {
        let is_of_texts = AtomicBool::new(false);
        let ask = || async {
            let vectors = self.0.ask(texts, purpose).await;
            let status = vectors.as_ref().err().and_then(|failure| failure.status);
            let is_size = status.is_some_and(|status| [400, 413, 422].contains(&status.as_u16()));
            is_of_texts.store(is_size, Ordering::Relaxed);
            vectors
        };
        let vectors = attempt::attempts(&self.0.server, ask).await;
        vectors.map_err(|error| Refusal { error, is_of_texts: is_of_texts.into_inner() })
    }
}

/// The most bytes of the texts of a request. A token has a byte at least, and OpenAI takes 300,000 tokens.
const LARGEST: usize = 300_000;
/// A text that every server takes. If it is refused, the request is at fault and not its texts.
const HARMLESS: &str = "text";
/// A text of this many bytes is not cut any further.
const SHORTEST: usize = 64;

/// Returns how many of these texts fit into one request, at most `most`.
fn fitting(texts: &[String], most: usize) -> usize {
    let mut bytes = 0_usize;
    let fits = |text: &&String| {
        bytes = bytes.saturating_add(text.len());
        bytes <= LARGEST
    };
    texts.iter().take(most).take_while(fits).count().max(1)
}

/// The greatest place up to this one at which a letter begins.
fn floor(text: &str, mut place: usize) -> usize {
    while !text.is_char_boundary(place) {
        place -= 1;
    }
    place
}

struct Refusal {
    error: ModelError,
    /// The server may have refused the texts: their number, or one of them.
    is_of_texts: bool,
}

impl Inner {
    /// Asks, once.
    async fn ask(&self, texts: &[String], purpose: Purpose) -> Result<Vec<Vec<f32>>, Failure> {
        let Self { api, server, dimensions, .. } = self;
        let body = api.body(&server.name, texts, *dimensions, purpose);
        let answer = server.send(&api.path(&server.name), |key| api.wire().headers(&server.name, key), &body).await?;
        let answer = transport::json(answer, server.timeout).await?;
        wire::no_error(&answer)?;
        let vectors = api.read(&answer).ok_or_else(|| Failure::bad_answer("it has no vectors where they stand"))?;
        if vectors.len() != texts.len() {
            let reason = format!("it has {} vectors for {} texts", vectors.len(), texts.len());
            return Err(Failure::bad_answer(reason));
        }
        Ok(vectors)
    }
}

impl Api {
    /// The dialect of the same provider: where it is, its key and its headers.
    fn wire(self) -> &'static dyn wire::Wire {
        match self {
            Self::OpenAi => wire::OPENAI,
            Self::Ollama => wire::OLLAMA,
            Self::Gemini => wire::GEMINI,
        }
    }

    /// The most texts of a request: what providers take, and what leaves the answer small.
    fn most(self) -> usize {
        match self {
            Self::OpenAi | Self::Ollama => 256,
            Self::Gemini => 100,
        }
    }

    fn path(self, model: &str) -> String {
        match self {
            Self::OpenAi => "embeddings".to_owned(),
            Self::Ollama => "api/embed".to_owned(),
            Self::Gemini => format!("{}:batchEmbedContents", wire::resource(model)),
        }
    }

    fn body(self, model: &str, texts: &[String], dimensions: Option<u32>, purpose: Purpose) -> Value {
        let (mut body, length) = match self {
            Self::OpenAi => (json!({ "model": model, "input": texts, "encoding_format": "float" }), "dimensions"),
            Self::Ollama => (json!({ "model": model, "input": texts }), "dimensions"),
            Self::Gemini => return gemini(model, texts, dimensions, purpose),
        };
        if let Some(dimensions) = dimensions {
            body[length] = json!(dimensions);
        }
        body
    }

    /// The vectors of an answer, in the order of the texts.
    fn read(self, answer: &Value) -> Option<Vec<Vec<f32>>> {
        let list = |field: &str| answer.get(field)?.as_array();
        let vector = |value: &Value| serde_json::from_value::<Vec<f32>>(value.clone()).ok();
        match self {
            Self::Ollama => list("embeddings")?.iter().map(vector).collect(),
            Self::Gemini => list("embeddings")?.iter().map(|one| vector(one.get("values")?)).collect(),
            Self::OpenAi => {
                let mut numbered: Vec<(u64, Vec<f32>)> = Vec::new();
                for one in list("data")? {
                    let number = one.get("index").map_or(Some(numbered.len() as u64), Value::as_u64)?;
                    numbered.push((number, vector(one.get("embedding")?)?));
                }
                numbered.sort_by_key(|(number, _)| *number);
                let complete = (0..).zip(&numbered).all(|(place, (number, _))| place == *number);
                complete.then(|| numbered.into_iter().map(|(_, vector)| vector).collect())
            }
        }
    }
}

fn gemini(model: &str, texts: &[String], dimensions: Option<u32>, purpose: Purpose) -> Value {
    let purpose = match purpose {
        Purpose::Item => "RETRIEVAL_DOCUMENT",
        Purpose::Query => "RETRIEVAL_QUERY",
    };
    let request = |text: &String| {
        let content = json!({ "parts": [{ "text": text }] });
        let mut request = json!({ "model": wire::resource(model), "content": content, "taskType": purpose });
        if let Some(dimensions) = dimensions {
            request["outputDimensionality"] = json!(dimensions);
        }
        request
    };
    json!({ "requests": texts.iter().map(request).collect::<Vec<_>>() })
}

#[async_trait]
impl Embedder for Embeddings {
    async fn embed(&self, texts: Vec<String>) -> Result<Vec<Vec<f32>>, StoreError> {
        self.vectors(&texts, Purpose::Item).await
    }

    async fn embed_query(&self, text: String) -> Result<Vec<f32>, StoreError> {
        let mut vectors = self.vectors(&[text], Purpose::Query).await?;
        vectors.pop().ok_or_else(|| StoreError::Embedding("there is no vector for the query".to_owned()))
    }
}

impl fmt::Debug for Embeddings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Inner { api, server, .. } = &*self.0;
        f.debug_struct("Embeddings")
            .field("provider", &api.wire().provider())
            .field("name", &server.name)
            .field("url", &shown(&server.url))
            .finish_non_exhaustive()
    }
}
