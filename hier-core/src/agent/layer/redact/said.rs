//! An answer that is being said, without secrets.

use std::sync::Arc;

use serde_json::Value;

use crate::agent::layer::Pieces;
use crate::agent::redaction::Redactor;
use crate::message::ChatChunk;

/// What is held back of an answer that is being said.
pub(in crate::agent) struct Held {
    redactor: Arc<Redactor>,
    text: String,
    reasoning: String,
    /// The arguments of each call, by its id.
    calls: Vec<(String, String)>,
}

/// Makes a piece of a text.
type Whole = fn(String) -> ChatChunk;

impl Held {
    pub(in crate::agent) fn new(redactor: Arc<Redactor>) -> Self {
        Self { redactor, text: String::new(), reasoning: String::new(), calls: Vec::new() }
    }
}

impl Pieces for Held {
    fn piece(&mut self, piece: ChatChunk, out: &mut dyn FnMut(ChatChunk)) {
        let (held, whole): (_, Whole) = match piece {
            ChatChunk::Text(text) => {
                self.text.push_str(&text);
                (&mut self.text, ChatChunk::Text)
            }
            ChatChunk::Reasoning(text) => {
                self.reasoning.push_str(&text);
                (&mut self.reasoning, ChatChunk::Reasoning)
            }
            ChatChunk::CallArguments { id, text, .. } => {
                match self.calls.iter_mut().find(|(other, _)| *other == id) {
                    Some((_, held)) => held.push_str(&text),
                    None => self.calls.push((id, text)),
                }
                return;
            }
            other => return out(other),
        };
        let ready = self.redactor.ready(held, false);
        if !ready.is_empty() {
            out(whole(ready));
        }
    }

    fn end(&mut self, out: &mut dyn FnMut(ChatChunk)) {
        let rest: [(_, Whole); 2] = [(&mut self.reasoning, ChatChunk::Reasoning), (&mut self.text, ChatChunk::Text)];
        for (held, whole) in rest {
            let ready = self.redactor.ready(held, true);
            if !ready.is_empty() {
                out(whole(ready));
            }
        }
        for (id, held) in self.calls.drain(..) {
            // The letters of a secret may be escaped in JSON.
            let text = match serde_json::from_str::<Value>(&held) {
                Ok(mut args) => {
                    if self.redactor.value(&mut args) {
                        args.to_string()
                    } else {
                        held
                    }
                }
                Err(_) => self.redactor.redacted(&held).unwrap_or(held),
            };
            out(ChatChunk::call_arguments(id, text));
        }
    }
}
