//! What a model thinks, while it is read.

use hier_agents::Reasoning;
use serde_json::Value;

/// A thought while it is read.
#[derive(Clone, Debug)]
pub(super) struct Thought {
    /// Its number; none for what only marks a call.
    pub(super) number: Option<u64>,
    /// How much had been said before it, in bytes.
    at: usize,
    pub(super) text: String,
    /// What the provider needs to get back.
    pub(super) data: Value,
    pub(super) place: Place,
}

/// What a thought led to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// Nothing has followed yet.
    Open,
    /// The text of the message.
    Message,
    /// The call at this place of the draft.
    Call(usize),
}

impl Thought {
    pub(super) fn new(number: u64, at: usize) -> Self {
        Self { number: Some(number), at, text: String::new(), data: Value::Null, place: Place::Open }
    }

    /// What marks a call.
    pub(super) fn mark(call: usize, data: Value) -> Self {
        Self { number: None, at: 0, text: String::new(), data, place: Place::Call(call) }
    }

    pub(super) fn is_mark_of(&self, call: usize) -> bool {
        self.number.is_none() && self.place == Place::Call(call)
    }

    pub(super) fn keep(&mut self, fields: Value) {
        match (&mut self.data, fields) {
            (Value::Object(kept), Value::Object(fields)) => kept.extend(fields),
            (kept, fields) => *kept = fields,
        }
    }

    /// The thought as it is kept, with the id of its call. None if there is nothing to it.
    pub(super) fn reasoning(self, maker: &str, ids: &[String]) -> Option<Reasoning> {
        if self.text.is_empty() && self.data.is_null() {
            return None;
        }
        let reasoning = Reasoning::new(maker, self.text).with_data(self.data);
        match self.place {
            Place::Call(call) => Some(reasoning.of_call(ids.get(call)?)),
            Place::Open | Place::Message => Some(reasoning.at(self.at)),
        }
    }
}
