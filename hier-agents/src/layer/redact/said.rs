//! An answer that is being said, without secrets.

use std::sync::Arc;

use serde_json::Value;

use crate::layer::Pieces;
use crate::redaction::Redactor;
use hier_checkpoint::message::ChatChunk;

/// What is held back of an answer that is being said.
pub(crate) struct Held {
    redactor: Arc<Redactor>,
    text: Waiting,
    reasoning: Waiting,
    /// The arguments of each call, by its id.
    calls: Vec<(String, String)>,
}

/// A text of which the end is held back.
#[derive(Default)]
struct Waiting {
    text: String,
    /// The number of bytes that were held back when the text was last read.
    read: usize,
}

impl Waiting {
    /// Adds a piece, and takes what can be sent now. A long text is read again only once it has grown by an eighth, since reading
    /// begins at its start.
    fn push(&mut self, redactor: &Redactor, piece: &str) -> String {
        const LONG: usize = 1024;
        self.text.push_str(piece);
        if self.read > LONG && self.text.len() - self.read < self.read / 8 {
            return String::new();
        }
        let ready = redactor.ready(&mut self.text, false);
        self.read = self.text.len();
        ready
    }
}

/// Makes a piece of a text.
type Whole = fn(String) -> ChatChunk;

impl Held {
    pub(crate) fn new(redactor: Arc<Redactor>) -> Self {
        Self { redactor, text: Waiting::default(), reasoning: Waiting::default(), calls: Vec::new() }
    }
}

impl Pieces for Held {
    fn piece(&mut self, piece: ChatChunk, out: &mut dyn FnMut(ChatChunk)) {
        let (ready, whole): (_, Whole) = match piece {
            ChatChunk::Text(text) => (self.text.push(&self.redactor, &text), ChatChunk::Text),
            ChatChunk::Reasoning(text) => (self.reasoning.push(&self.redactor, &text), ChatChunk::Reasoning),
            ChatChunk::CallArguments { id, text, .. } => {
                match self.calls.iter_mut().find(|(other, _)| *other == id) {
                    Some((_, held)) => held.push_str(&text),
                    None => self.calls.push((id, text)),
                }
                return;
            }
            other => return out(other),
        };
        if !ready.is_empty() {
            out(whole(ready));
        }
    }

    fn end(&mut self, out: &mut dyn FnMut(ChatChunk)) {
        let rest: [(_, Whole); 2] = [(&mut self.reasoning, ChatChunk::Reasoning), (&mut self.text, ChatChunk::Text)];
        for (held, whole) in rest {
            let ready = self.redactor.ready(&mut held.text, true);
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
