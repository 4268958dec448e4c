//! An answer that is being said, without secrets.

use std::sync::Arc;

use serde_json::Value;

use super::Pattern;
use crate::agent::layer::Pieces;
use crate::message::ChatChunk;

/// What is held back of an answer that is being said.
pub(super) struct Held {
    pattern: Arc<Pattern>,
    text: String,
    reasoning: String,
    /// The arguments of each call, by its id.
    calls: Vec<(String, String)>,
}

/// Makes a piece of a text.
type Whole = fn(String) -> ChatChunk;

impl Held {
    pub(super) fn new(pattern: Arc<Pattern>) -> Self {
        Self { pattern, text: String::new(), reasoning: String::new(), calls: Vec::new() }
    }
}

impl Pattern {
    /// Takes out of a text that goes on what can be said of it, without secrets; all of it, if it has ended.
    fn ready(&self, text: &mut String, has_ended: bool) -> String {
        let open = if has_ended { text.len() } else { self.find.open(text).min(text.len()) };
        let mut open = (0..=open).rev().find(|at| text.is_char_boundary(*at)).unwrap_or_default();
        let (mut out, mut from) = (String::new(), 0);
        while let Some((start, end)) = self.first(text, from) {
            // It may go on, or something that begins before it may be found then.
            if !has_ended && (end == text.len() || start >= open) {
                open = open.min(start);
                break;
            }
            out.push_str(&text[from..start]);
            out.push_str(&self.mark);
            from = end;
        }
        let to = open.max(from);
        out.push_str(&text[from..to]);
        text.drain(..to);
        out
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
        let ready = self.pattern.ready(held, false);
        if !ready.is_empty() {
            out(whole(ready));
        }
    }

    fn end(&mut self, out: &mut dyn FnMut(ChatChunk)) {
        let rest: [(_, Whole); 2] = [(&mut self.reasoning, ChatChunk::Reasoning), (&mut self.text, ChatChunk::Text)];
        for (held, whole) in rest {
            let ready = self.pattern.ready(held, true);
            if !ready.is_empty() {
                out(whole(ready));
            }
        }
        for (id, held) in self.calls.drain(..) {
            // The letters of a secret may be escaped in JSON.
            let text = match serde_json::from_str::<Value>(&held) {
                Ok(mut args) => {
                    if self.pattern.value(&mut args) {
                        args.to_string()
                    } else {
                        held
                    }
                }
                Err(_) => self.pattern.redacted(&held).unwrap_or(held),
            };
            out(ChatChunk::call_arguments(id, text));
        }
    }
}
