//! Messages that are being spoken: pieces put together, in the forms in which clients read them.

use std::collections::HashMap;

use hier_core::agent::ChatChunk;
use hier_core::runs::LoggedMessage;
use serde_json::{Map, Value, json};

use crate::wire::message;

/// What has been said so far of each message, by its id.
#[derive(Debug, Default)]
pub(crate) struct Speeches(HashMap<String, Speech>);

/// A message that is being spoken.
#[derive(Debug, Default)]
pub(crate) struct Speech {
    pub(crate) text: String,
    /// The ids of the calls whose arguments have been told piece by piece, in the order of their beginning.
    calls: Vec<String>,
}

/// A piece of a message.
#[derive(Debug)]
pub(crate) struct Piece {
    /// The id of the message.
    pub(crate) id: String,
    /// Whether it is the first of its message.
    pub(crate) is_first: bool,
    pub(crate) what: What,
}

/// What a piece adds.
#[derive(Debug)]
pub(crate) enum What {
    Text(String),
    Reasoning(String),
    /// A tool is called: the place of the call among those of the message, its id, and the tool.
    Call {
        index: usize,
        id: String,
        name: String,
    },
    /// More of the arguments of a call.
    Arguments {
        index: usize,
        id: String,
        text: String,
    },
    /// The whole message, in LangChain's form, and whether nothing of it has been told before.
    Done {
        message: Value,
        is_new: bool,
    },
}

impl Speeches {
    /// Takes in a piece of a message; none if it adds to a call that has not begun.
    pub(crate) fn take(&mut self, message: &LoggedMessage) -> Option<Piece> {
        let id = message.id.clone();
        let is_first = !self.0.contains_key(&id);
        let speech = self.0.entry(id.clone()).or_default();
        let what = match &message.chunk {
            ChatChunk::Text(text) => {
                speech.text.push_str(text);
                What::Text(text.clone())
            }
            ChatChunk::Reasoning(text) => What::Reasoning(text.clone()),
            ChatChunk::CallStarted { id, name, .. } => {
                speech.calls.push(id.clone());
                What::Call { index: speech.calls.len().saturating_sub(1), id: id.clone(), name: name.clone() }
            }
            ChatChunk::CallArguments { id, text, .. } => {
                let index = speech.calls.iter().position(|call| call == id)?;
                What::Arguments { index, id: id.clone(), text: text.clone() }
            }
            ChatChunk::Done(response) => {
                let mut message = json!(response.message);
                message::outward(&mut message);
                What::Done { message, is_new: is_first }
            }
            _ => return None,
        };
        Some(Piece { id, is_first, what })
    }

    /// Notes a message that was told as a whole; false if it is known.
    pub(crate) fn note(&mut self, id: &str) -> bool {
        if self.0.contains_key(id) {
            return false;
        }
        self.0.insert(id.to_owned(), Speech::default());
        true
    }

    /// The text of a message so far.
    pub(crate) fn text(&self, id: &str) -> &str {
        self.0.get(id).map_or("", |speech| speech.text.as_str())
    }

    fn has_told_calls(&self, id: &str) -> bool {
        self.0.get(id).is_some_and(|speech| !speech.calls.is_empty())
    }

    /// The message as it is so far.
    pub(crate) fn grown(&self, id: &str) -> Value {
        json!({
            "content": self.text(id), "additional_kwargs": {}, "response_metadata": {}, "type": "ai", "name": null, "id": id,
            "tool_calls": [], "invalid_tool_calls": [], "usage_metadata": null,
        })
    }

    /// A piece as a chunk that clients add to those before it.
    pub(crate) fn chunk(&self, piece: &Piece) -> Value {
        let mut chunk = json!({
            "content": "", "additional_kwargs": {}, "response_metadata": {}, "type": "AIMessageChunk", "name": null,
            "id": piece.id, "tool_calls": [], "invalid_tool_calls": [], "usage_metadata": null, "tool_call_chunks": [],
            "chunk_position": null,
        });
        match &piece.what {
            What::Text(text) => chunk["content"] = text.as_str().into(),
            What::Reasoning(text) => chunk["additional_kwargs"] = json!({ "reasoning_content": text }),
            What::Call { index, id, name } => {
                chunk["tool_call_chunks"] = json!([call_chunk(Some(name), "", Some(id), *index)]);
            }
            What::Arguments { index, text, .. } => {
                chunk["tool_call_chunks"] = json!([call_chunk(None, text, None, *index)]);
            }
            What::Done { message, is_new } => {
                self.finish(&mut chunk, &piece.id, message, *is_new);
            }
        }
        chunk
    }

    /// The last chunk: what the chunks before it have not told.
    fn finish(&self, chunk: &mut Value, id: &str, message: &Value, is_new: bool) {
        chunk["chunk_position"] = "last".into();
        chunk["usage_metadata"] = message.get("usage_metadata").cloned().unwrap_or_default();
        chunk["response_metadata"] = message.get("response_metadata").cloned().unwrap_or_else(|| json!({}));
        if is_new || self.text(id).is_empty() {
            chunk["content"] = message.get("content").cloned().unwrap_or_default();
        }
        let calls = message.get("tool_calls").and_then(Value::as_array).filter(|_| !self.has_told_calls(id));
        let pieces = calls.into_iter().flatten().enumerate().map(|(index, call)| {
            let text = |name: &str| call.get(name).and_then(Value::as_str);
            let args = call.get("args").map(Value::to_string).unwrap_or_default();
            call_chunk(text("name"), &args, text("id"), index)
        });
        chunk["tool_call_chunks"] = pieces.collect();
        chunk["tool_calls"] = calls.cloned().map_or_else(|| json!([]), Value::Array);
    }
}

fn call_chunk(name: Option<&str>, args: &str, id: Option<&str>, index: usize) -> Value {
    json!({ "name": name, "args": args, "id": id, "index": index, "type": "tool_call_chunk" })
}

/// The messages that a node wrote, in LangChain's form: objects with an id in lists of its update. What the model is told to be
/// is for the model.
pub(crate) fn written(update: &Value) -> impl Iterator<Item = (&str, &Map<String, Value>)> {
    let channels = update.as_object().into_iter().flat_map(Map::values);
    let items = channels.flat_map(|value| match value {
        Value::Array(items) => items.iter().collect(),
        one => vec![one],
    });
    items.filter_map(|item| {
        let message = item.as_object()?;
        let kind = message.get("type")?.as_str()?;
        let is_message = matches!(kind, "ai" | "human" | "tool") && message.contains_key("content");
        Some((message.get("id")?.as_str().filter(|_| is_message)?, message))
    })
}
