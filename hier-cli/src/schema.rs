//! `hier schema`: prints the JSON Schemas of a graph on a running server. Other tools make typed clients from this
//! document.

mod bundle;

use std::io::{self, Write};
use std::time::Duration;

use clap::Args;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::threads::safe_json;
use bundle::Bundle;

/// The time in which the server must respond.
const TIMEOUT: Duration = Duration::from_secs(30);
/// Maximum size of a response, in bytes. Another program at the URL may send data without an end.
const LARGEST: usize = 64 << 20;
/// Maximum length of the text in the message about a refused request, in characters.
const LONGEST: usize = 2_000;

/// The arguments of `hier schema`.
#[derive(Args, Debug)]
pub struct SchemaArgs {
    /// Name of the graph. Optional if the server has only one.
    pub graph: Option<String>,
    /// URL of the server.
    #[arg(long, value_name = "URL", default_value = "http://127.0.0.1:8123")]
    pub server: String,
    /// Bearer token for a server that requires authentication.
    #[arg(long, value_name = "TOKEN")]
    pub token: Option<String>,
}

/// The error of `hier schema`.
#[derive(Debug, thiserror::Error)]
pub enum SchemaError {
    /// The command could not reach the server.
    #[error(
        "cannot reach the server at {url}: {error}; start the program that serves the graph, or pass the URL of the server with `--server`"
    )]
    NoServer {
        /// The URL of the server.
        url: String,
        /// The error of the connection.
        error: String,
    },
    /// The server responded with an error.
    #[error("the server at {url} responded with status {status}: {text}")]
    Refused {
        /// The URL of the request.
        url: String,
        /// The status code.
        status: u16,
        /// The beginning of the response's body.
        text: String,
    },
    /// The response is not from a hier server.
    #[error("the response of {url} is not from a hier server: {error}")]
    Unreadable {
        /// The URL of the request.
        url: String,
        /// The error of the parser, or the limit that the response exceeds.
        error: String,
    },
    /// No graph matches the arguments, or several match.
    #[error("{0}")]
    Choose(String),
    /// The command could not write the schemas.
    #[error("cannot write the schemas: {0}")]
    Write(io::Error),
}

#[derive(Deserialize)]
struct Assistant {
    assistant_id: String,
    graph_id: String,
}

/// The schemas of a graph, as the server returns them.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(crate) struct ServedSchemas {
    pub(crate) input_schema: Option<Value>,
    pub(crate) output_schema: Option<Value>,
    pub(crate) state_schema: Option<Value>,
    pub(crate) question_schemas: std::collections::BTreeMap<String, ServedQuestion>,
}

#[derive(Deserialize)]
pub(crate) struct ServedQuestion {
    pub(crate) question: Value,
    pub(crate) answer: Value,
}

/// Requests the schemas of a graph from the server, and writes them to `out` as one JSON Schema.
pub fn print_schema(arguments: &SchemaArgs, out: &mut dyn Write) -> Result<(), SchemaError> {
    let server = GraphServer::new(arguments)?;
    let search = |metadata: Value| server.post("/assistants/search", &json!({ "limit": 1000, "metadata": metadata }));
    // The server has one of these assistants for each graph, but may hide them from this user.
    let mut assistants: Vec<Assistant> = search(json!({ "created_by": "system" }))?;
    if assistants.is_empty() {
        assistants = search(json!({}))?;
    }
    let found = choose(arguments.graph.as_deref(), &assistants)?;
    let schemas: ServedSchemas = server.get(&format!("/assistants/{}/schemas", found.assistant_id))?;
    let document = Bundle::new(&found.graph_id).document(schemas);
    writeln!(out, "{}", safe_json(&document)).map_err(SchemaError::Write)
}

fn choose<'a>(wanted: Option<&str>, assistants: &'a [Assistant]) -> Result<&'a Assistant, SchemaError> {
    let mut names: Vec<&str> = assistants.iter().map(|assistant| &*assistant.graph_id).collect();
    names.sort_unstable();
    names.dedup();
    let name = match (wanted, &names[..]) {
        (Some(name), _) => name,
        (None, [name]) => *name,
        (None, []) => return Err(SchemaError::Choose("the server has no graphs".to_owned())),
        (None, _) => {
            let list = names.join("`, `");
            return Err(SchemaError::Choose(format!("the server has several graphs: choose one of `{list}`")));
        }
    };
    assistants.iter().find(|assistant| assistant.graph_id == name).ok_or_else(|| {
        let tail = hier_spec::did_you_mean(name, names.iter().copied());
        SchemaError::Choose(format!("the server has no graph `{name}`{tail}"))
    })
}

/// A client of the server.
struct GraphServer {
    runtime: tokio::runtime::Runtime,
    client: reqwest::Client,
    url: String,
    token: Option<String>,
}

impl GraphServer {
    fn new(arguments: &SchemaArgs) -> Result<Self, SchemaError> {
        let url = arguments.server.trim_end_matches('/').to_owned();
        let failed =
            |error: &dyn std::fmt::Display| SchemaError::NoServer { url: url.clone(), error: error.to_string() };
        let client = reqwest::Client::builder().timeout(TIMEOUT).build().map_err(|error| failed(&error))?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| failed(&error))?;
        Ok(Self { runtime, client, token: arguments.token.clone(), url })
    }

    fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T, SchemaError> {
        let url = format!("{}{path}", self.url);
        self.send(self.client.get(&url), url)
    }

    fn post<T: DeserializeOwned>(&self, path: &str, body: &Value) -> Result<T, SchemaError> {
        let url = format!("{}{path}", self.url);
        self.send(self.client.post(&url).json(body), url)
    }

    fn send<T: DeserializeOwned>(&self, request: reqwest::RequestBuilder, url: String) -> Result<T, SchemaError> {
        let request = match &self.token {
            Some(token) => request.bearer_auth(token),
            None => request,
        };
        let response = async {
            let mut response = request.send().await?;
            let mut body = Vec::new();
            while let Some(part) = response.chunk().await?
                && body.len() <= LARGEST
            {
                body.extend_from_slice(&part);
            }
            Ok::<_, reqwest::Error>((response.status(), body))
        };
        let (status, body) = self
            .runtime
            .block_on(response)
            .map_err(|error| SchemaError::NoServer { url: self.url.clone(), error: deepest(&error) })?;
        if !status.is_success() {
            let text = String::from_utf8_lossy(&body).chars().take(LONGEST).collect();
            return Err(SchemaError::Refused { url, status: status.as_u16(), text });
        }
        if body.len() > LARGEST {
            let error = format!("it is larger than {LARGEST} bytes");
            return Err(SchemaError::Unreadable { url, error });
        }
        serde_json::from_slice(&body).map_err(|error| SchemaError::Unreadable { url, error: error.to_string() })
    }
}

/// Returns the innermost cause of an error, which states the reason.
fn deepest(error: &dyn std::error::Error) -> String {
    let mut cause = error;
    while let Some(source) = cause.source() {
        cause = source;
    }
    cause.to_string()
}
