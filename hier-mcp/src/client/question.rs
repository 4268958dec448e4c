//! What a server asks: a person (elicitation), a model (sampling), for folders (roots).

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::schema;

/// What a server asks a person: the value of the interrupt. The schema of the answer is the interrupt's
/// ([`Question::schema`](hier_core::Question::schema)).
///
/// The answer is an object of that schema, or null, which declines. A question with a `url` is answered with `true` once the person
/// has been there, and with null or `false` otherwise.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename = "mcp_question")]
#[non_exhaustive]
pub struct Question {
    /// The server that asks.
    pub server: String,
    /// The tool that is being called; none if the server asks without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool: Option<String>,
    /// The question.
    pub message: String,
    /// Where the person is to go, if it is not asked here. It is the server's: show it before it is opened.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// The JSON schema of the answer. Not part of the interrupt's value.
    #[serde(skip)]
    pub schema: Value,
}

impl Question {
    pub(super) fn new(server: &str, tool: Option<&str>, message: String, url: Option<String>, schema: Value) -> Self {
        Self { server: server.to_owned(), tool: tool.map(str::to_owned), message, url, schema }
    }

    /// Whether this answers it; otherwise what is wrong.
    pub(super) fn check(&self, answer: &Value) -> Result<(), String> {
        if answer.is_null() || (self.url.is_some() && answer.is_boolean()) {
            return Ok(());
        }
        if self.url.is_some() {
            return Err("it is `true` or `false`".to_owned());
        }
        schema::check(answer, &self.schema)
    }

    /// The answer as the server takes it.
    pub(super) fn result(&self, answer: Value) -> Value {
        match answer {
            Value::Null | Value::Bool(false) => json!({"action": "decline"}),
            _ if self.url.is_some() => json!({"action": "accept"}),
            content => json!({"action": "accept", "content": content}),
        }
    }
}

/// A request of a server, read.
pub(crate) enum Asked {
    /// A person is asked; the server and tool are filled in later.
    Person { message: String, url: Option<String>, schema: Value },
    /// A model is asked: the parameters.
    Model(Value),
    /// Folders are asked for.
    Roots,
}

impl Asked {
    /// Reads a request: an object with `method` and `params`.
    pub(crate) fn read(request: &Value) -> Result<Self, String> {
        let (method, params) = (request["method"].as_str().unwrap_or_default(), &request["params"]);
        match method {
            "elicitation/create" => {
                let message = params["message"].as_str().unwrap_or_default().to_owned();
                if params["mode"] == "url" {
                    let url = params["url"].as_str().ok_or("`url` is missing")?.to_owned();
                    return Ok(Self::Person { message, url: Some(url), schema: json!({"type": ["boolean", "null"]}) });
                }
                let schema = &params["requestedSchema"];
                if !schema.is_object() {
                    return Err("`requestedSchema` is no object".to_owned());
                }
                Ok(Self::Person { message, url: None, schema: schema.clone() })
            }
            "sampling/createMessage" => Ok(Self::Model(params.clone())),
            "roots/list" => Ok(Self::Roots),
            other => Err(format!("a client cannot be asked `{other}`")),
        }
    }

    pub(crate) fn method(&self) -> &'static str {
        match self {
            Self::Person { .. } => "elicitation/create",
            Self::Model(_) => "sampling/createMessage",
            Self::Roots => "roots/list",
        }
    }
}
