//! The server's requests: to a person (elicitation), to a model (sampling), and for folders (roots).

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::schema;

/// A server's question to a person. A run that waits for the answer has this question as the value of its interrupt.
/// [`Question::schema`](hier_core::Question::schema) has the JSON Schema of the answer.
///
/// The answer is an object that matches the schema, or null if the person declines. If the question has a `url`, the
/// answer is `true` if the person has visited the URL, and otherwise null or `false`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename = "mcp_question")]
#[non_exhaustive]
pub struct McpQuestion {
    /// The name of the server that asks.
    pub server: String,
    /// The name of the tool whose call led to the question. `None` if the question does not belong to a tool call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool: Option<String>,
    /// The question.
    pub message: String,
    /// The URL of a web page that the person must visit. `None` if the program itself must ask the person. Show the URL
    /// to the person before you open it, because the server has chosen it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// The JSON Schema of the answer. Null if you deserialize the value of an interrupt: then read
    /// [`Question::schema`](hier_core::Question::schema).
    #[serde(skip)]
    pub schema: Value,
}

impl McpQuestion {
    pub(super) fn new(server: &str, tool: Option<&str>, message: String, url: Option<String>, schema: Value) -> Self {
        Self { server: server.to_owned(), tool: tool.map(str::to_owned), message, url, schema }
    }

    /// Checks an answer. Returns the problem, if any.
    pub(super) fn check(&self, answer: &Value) -> Result<(), String> {
        if answer.is_null() || (self.url.is_some() && answer.is_boolean()) {
            return Ok(());
        }
        if self.url.is_some() {
            return Err("answer `true` or `false`".to_owned());
        }
        schema::check(answer, &self.schema)
    }

    /// Converts the answer to the result for the server.
    pub(super) fn result(&self, answer: Value) -> Value {
        match answer {
            Value::Null | Value::Bool(false) => json!({"action": "decline"}),
            _ if self.url.is_some() => json!({"action": "accept"}),
            content => json!({"action": "accept", "content": content}),
        }
    }
}

pub(crate) enum RequestedInput {
    /// A question to a person.
    Person {
        message: String,
        url: Option<String>,
        schema: Value,
    },
    Model(Value),
    Roots,
}

impl RequestedInput {
    /// Parses a request: an object with `method` and `params`.
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
                    return Err("`requestedSchema` must be an object".to_owned());
                }
                Ok(Self::Person { message, url: None, schema: schema.clone() })
            }
            "sampling/createMessage" => Ok(Self::Model(params.clone())),
            "roots/list" => Ok(Self::Roots),
            other => Err(format!("clients do not support `{other}`")),
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
