//! Redacts an answer while it is streamed.

use std::sync::Arc;

use serde_json::Value;

use super::chunks::ChunkFilter;
use crate::redaction::Redactor;
use hier_checkpoint::message::ChatChunk;

/// Holds back the parts of a streamed answer that may contain a secret.
pub(crate) struct ChunkRedactor {
    redactor: Arc<Redactor>,
    text: HeldText,
    reasoning: HeldText,
    calls: Vec<(String, String)>,
}

/// A text whose end is held back.
#[derive(Default)]
struct HeldText {
    text: String,
    /// The number of bytes that were held back when the text was last searched.
    read: usize,
}

impl HeldText {
    /// Adds a chunk, and returns the text that can be sent now. A long text is searched again only after it has grown
    /// by an eighth, because each search begins at its start.
    fn push(&mut self, redactor: &Redactor, chunk: &str) -> String {
        const LONG: usize = 1024;
        self.text.push_str(chunk);
        if self.read > LONG && self.text.len() - self.read < self.read / 8 {
            return String::new();
        }
        let ready = redactor.ready(&mut self.text, false);
        self.read = self.text.len();
        ready
    }
}

type MakeChunk = fn(String) -> ChatChunk;

impl ChunkRedactor {
    pub(crate) fn new(redactor: Arc<Redactor>) -> Self {
        Self { redactor, text: HeldText::default(), reasoning: HeldText::default(), calls: Vec::new() }
    }
}

impl ChunkFilter for ChunkRedactor {
    fn push(&mut self, chunk: ChatChunk, out: &mut dyn FnMut(ChatChunk)) {
        let (ready, make_chunk): (_, MakeChunk) = match chunk {
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
            out(make_chunk(ready));
        }
    }

    fn finish(&mut self, out: &mut dyn FnMut(ChatChunk)) {
        let rest: [(_, MakeChunk); 2] =
            [(&mut self.reasoning, ChatChunk::Reasoning), (&mut self.text, ChatChunk::Text)];
        for (held, make_chunk) in rest {
            let ready = self.redactor.ready(&mut held.text, true);
            if !ready.is_empty() {
                out(make_chunk(ready));
            }
        }
        for (id, held) in self.calls.drain(..) {
            // JSON may escape the letters of a secret, so the parsed values are redacted.
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
