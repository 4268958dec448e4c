//! Embedding models, which turn texts into vectors for semantic search.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use hier_agents::ModelError;
use hier_core::async_trait;
use hier_core::store::{Embedder, StoreError};
use serde_json::{Value, json};

use crate::address::{self, ModelAddress};
use crate::error::{ModelFailure, ParseModelError};
use crate::key::ApiKey;
use crate::secret::redacted_url;
use crate::server::ModelServer;
use crate::{retry, transport, wire};

/// An embedding model on an HTTP server, for the search index of a store. Clones share the model.
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
/// The model retries temporary failures, such as a busy server, and never logs the API key. It splits a large batch of
/// texts into several requests, and sends them one after the other. If a text is too long for the model, the model
/// embeds only the beginning of the text.
#[derive(Clone)]
#[must_use]
pub struct Embeddings(Arc<EmbeddingEndpoint>);

#[derive(Clone)]
struct EmbeddingEndpoint {
    api: EmbeddingApi,
    server: ModelServer,
    dimensions: Option<u32>,
    /// The maximum number of texts per request.
    batch_size: usize,
}

#[derive(Clone, Copy)]
enum EmbeddingApi {
    OpenAi,
    Ollama,
    Gemini,
}

const EMBEDDING_APIS: [(&str, EmbeddingApi); 3] =
    [("openai", EmbeddingApi::OpenAi), ("ollama", EmbeddingApi::Ollama), ("gemini", EmbeddingApi::Gemini)];

/// The use of the texts. Some models embed queries differently.
#[derive(Clone, Copy)]
enum EmbeddingPurpose {
    Item,
    Query,
}

impl Embeddings {
    /// Creates an OpenAI model, such as `text-embedding-3-small`. The key defaults to the environment variable
    /// `OPENAI_API_KEY`.
    pub fn openai(name: impl Into<String>) -> Self {
        Self::of_provider(EmbeddingApi::OpenAi, name.into())
    }

    /// Creates a model of an Ollama server. The URL defaults to `http://localhost:11434`.
    pub fn ollama(name: impl Into<String>) -> Self {
        Self::of_provider(EmbeddingApi::Ollama, name.into())
    }

    /// Creates a Gemini model, such as `gemini-embedding-001`. The key defaults to the environment variable
    /// `GEMINI_API_KEY`.
    pub fn gemini(name: impl Into<String>) -> Self {
        Self::of_provider(EmbeddingApi::Gemini, name.into())
    }

    /// Creates a model of an OpenAI-compatible server. `url` is the base URL, such as `http://localhost:8080/v1`. By
    /// default, the model does not send a key. To send one, use [`key`](Self::key).
    pub fn at(url: impl Into<String>, name: impl Into<String>) -> Self {
        Self::make(EmbeddingApi::OpenAi, name.into(), url.into(), ApiKey::None)
    }

    /// Parses `PROVIDER:NAME` or `URL#NAME`.
    ///
    /// * The providers are `openai`, `gemini` and `ollama`. Example: `openai:text-embedding-3-small`.
    /// * A URL refers to an OpenAI-compatible server. For another API, put the provider and `+` in front:
    ///   `ollama+http://…`. By default, the model does not send a key to a URL. To send one, use [`key`](Self::key).
    pub fn parse(text: &str) -> Result<Self, ParseModelError> {
        Ok(match address::parse(text, &EMBEDDING_APIS)? {
            ModelAddress::Provider(api, name) => Self::of_provider(api, name.to_owned()),
            ModelAddress::Url(api, url, name) => {
                Self::make(api.unwrap_or(EmbeddingApi::OpenAi), name.to_owned(), url.to_owned(), ApiKey::None)
            }
        })
    }

    fn of_provider(api: EmbeddingApi, name: String) -> Self {
        let wire = api.wire();
        Self::make(api, name, wire.info().url.to_owned(), ApiKey::in_variable(wire.info().key_variable))
    }

    fn make(api: EmbeddingApi, name: String, url: String, key: ApiKey) -> Self {
        Self(Arc::new(EmbeddingEndpoint {
            api,
            server: ModelServer::new(name, url, key),
            dimensions: None,
            batch_size: api.batch_size(),
        }))
    }

    fn with(mut self, set: impl FnOnce(&mut ModelServer)) -> Self {
        Arc::make_mut(&mut self.0).server.set(set);
        self
    }

    crate::server::server_settings!();

    /// Sets the length of the vectors, for models that can shorten their vectors. A search ignores stored vectors of
    /// another length.
    pub fn dimensions(mut self, dimensions: u32) -> Self {
        Arc::make_mut(&mut self.0).dimensions = Some(dimensions);
        self
    }

    /// Sets the maximum number of texts per request. Defaults to 100 for Gemini, and to 256 for other models. If a
    /// server rejects a batch as too large, the model splits the batch in half.
    pub fn batch_size(mut self, texts: usize) -> Self {
        Arc::make_mut(&mut self.0).batch_size = texts.max(1);
        self
    }

    async fn vectors(&self, texts: &[String], purpose: EmbeddingPurpose) -> Result<Vec<Vec<f32>>, StoreError> {
        let blank = texts.iter().position(|text| text.trim().is_empty());
        if let Some(place) = blank {
            let reason = "it is blank: remove it".to_owned();
            return Err(StoreError::EmbeddingOf { place, reason });
        }
        let (mut vectors, mut batch_size) = (Vec::with_capacity(texts.len()), self.0.batch_size);
        // True once the server has accepted a text. From then on, a refusal concerns the texts.
        let mut takes_texts = false;
        while vectors.len() < texts.len() {
            let place = vectors.len();
            let rest = &texts[place..];
            let part = &rest[..count_fitting(rest, batch_size)];
            match self.request_vectors(part, purpose).await {
                Ok(more) => {
                    takes_texts = true;
                    vectors.extend(more);
                }
                Err(refusal) if !refusal.is_of_texts => return Err(refusal.into_store_error()),
                Err(refusal) if !takes_texts && !matches!(refusal.error, ModelError::TooLong { .. }) => {
                    // Some servers answer 400 to every problem, including a wrong key.
                    if self.request_vectors(&[HARMLESS.to_owned()], purpose).await.is_err() {
                        return Err(refusal.into_store_error());
                    }
                    takes_texts = true;
                }
                Err(_) if part.len() > 1 => batch_size = part.len() / 2,
                Err(refusal) => vectors.push(self.embed_beginning(&part[0], purpose, place, refusal.error).await?),
            }
        }
        Ok(vectors)
    }

    /// Embeds the beginning of a text that is too long: as much of it as the model can read.
    async fn embed_beginning(
        &self,
        text: &str,
        purpose: EmbeddingPurpose,
        place: usize,
        mut error: ModelError,
    ) -> Result<Vec<f32>, StoreError> {
        let mut length = text.len();
        while length > SHORTEST && matches!(error, ModelError::TooLong { .. }) {
            length = text.floor_char_boundary(length / 2);
            match self.request_vectors(&[text[..length].to_owned()], purpose).await {
                Ok(mut vectors) => {
                    let (model, place, bytes) = (&self.0.server.name, place + 1, text.len());
                    tracing::warn!(model, place, bytes, length, "truncated a text that is too long to embed");
                    return vectors
                        .pop()
                        .ok_or_else(|| StoreError::Embedding("the server returned no vector".to_owned()));
                }
                Err(refusal) => error = refusal.error,
            }
        }
        Err(StoreError::EmbeddingOf { place, reason: error.to_string() })
    }

    async fn request_vectors(&self, texts: &[String], purpose: EmbeddingPurpose) -> Result<Vec<Vec<f32>>, Refusal> {
        let is_of_texts = AtomicBool::new(false);
        let request = || async {
            let vectors = self.0.request_once(texts, purpose).await;
            let status = vectors.as_ref().err().and_then(|failure| failure.status);
            let is_size = status.is_some_and(|status| [400, 413, 422].contains(&status.as_u16()));
            is_of_texts.store(is_size, Ordering::Relaxed);
            vectors
        };
        let vectors = retry::with_retries(&self.0.server, request).await;
        vectors.map_err(|error| Refusal { error, is_of_texts: is_of_texts.into_inner() })
    }
}

/// The maximum size of the texts of a request, in bytes. A token has at least one byte, and OpenAI accepts 300,000
/// tokens.
const LARGEST: usize = 300_000;
/// A text that every server accepts. If it is refused, the cause is the request and not its texts.
const HARMLESS: &str = "text";
/// Texts of this many bytes are not truncated further.
const SHORTEST: usize = 64;

/// Returns how many of these texts fit into one request, at most `batch_size`.
fn count_fitting(texts: &[String], batch_size: usize) -> usize {
    let mut bytes = 0_usize;
    let fits = |text: &&String| {
        bytes = bytes.saturating_add(text.len());
        bytes <= LARGEST
    };
    texts.iter().take(batch_size).take_while(fits).count().max(1)
}

struct Refusal {
    error: ModelError,
    /// True if the server may have refused the request because of the texts or their number.
    is_of_texts: bool,
}

impl Refusal {
    fn into_store_error(self) -> StoreError {
        StoreError::Embedding(self.error.to_string())
    }
}

impl EmbeddingEndpoint {
    async fn request_once(&self, texts: &[String], purpose: EmbeddingPurpose) -> Result<Vec<Vec<f32>>, ModelFailure> {
        let Self { api, server, dimensions, .. } = self;
        let body = api.body(&server.name, texts, *dimensions, purpose);
        let answer = server.send(&api.path(&server.name), |key| api.wire().headers(&server.name, key), &body).await?;
        let answer = transport::read_json(answer, server.timeout).await?;
        wire::check_no_error(&answer)?;
        let vectors = api.read(&answer).ok_or_else(|| ModelFailure::bad_answer("no vectors found in the response"))?;
        if vectors.len() != texts.len() {
            let reason = format!("the response has {} vectors for {} texts", vectors.len(), texts.len());
            return Err(ModelFailure::bad_answer(reason));
        }
        Ok(vectors)
    }
}

impl EmbeddingApi {
    /// The chat dialect of the same provider, which knows its URL, key and headers.
    fn wire(self) -> &'static dyn wire::Dialect {
        match self {
            Self::OpenAi => wire::OPENAI,
            Self::Ollama => wire::OLLAMA,
            Self::Gemini => wire::GEMINI,
        }
    }

    /// Returns the default number of texts per request. Providers accept this number, and the answers stay small.
    fn batch_size(self) -> usize {
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

    fn body(self, model: &str, texts: &[String], dimensions: Option<u32>, purpose: EmbeddingPurpose) -> Value {
        let mut body = match self {
            Self::OpenAi => json!({ "model": model, "input": texts, "encoding_format": "float" }),
            Self::Ollama => json!({ "model": model, "input": texts }),
            Self::Gemini => return gemini(model, texts, dimensions, purpose),
        };
        if let Some(dimensions) = dimensions {
            body["dimensions"] = json!(dimensions);
        }
        body
    }

    /// Returns the vectors of an answer, in the order of the texts.
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

fn gemini(model: &str, texts: &[String], dimensions: Option<u32>, purpose: EmbeddingPurpose) -> Value {
    let purpose = match purpose {
        EmbeddingPurpose::Item => "RETRIEVAL_DOCUMENT",
        EmbeddingPurpose::Query => "RETRIEVAL_QUERY",
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
        self.vectors(&texts, EmbeddingPurpose::Item).await
    }

    async fn embed_query(&self, text: String) -> Result<Vec<f32>, StoreError> {
        let mut vectors = self.vectors(&[text], EmbeddingPurpose::Query).await?;
        vectors.pop().ok_or_else(|| StoreError::Embedding("the server returned no vector for the query".to_owned()))
    }
}

impl fmt::Debug for Embeddings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let EmbeddingEndpoint { api, server, .. } = &*self.0;
        f.debug_struct("Embeddings")
            .field("provider", &api.wire().info().provider)
            .field("name", &server.name)
            .field("url", &redacted_url(&server.url))
            .finish_non_exhaustive()
    }
}
