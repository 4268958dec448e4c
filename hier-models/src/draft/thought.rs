use hier_agents::Reasoning;
use serde_json::{Value, json};

use crate::conversation::{BEHIND, OPAQUE};

/// A thought of the model while the answer is read.
#[derive(Clone, Debug)]
pub(super) struct Thought {
    /// `None` for the marker of a call or of the message.
    pub(super) number: Option<u64>,
    /// The length of the text before the thought, in bytes.
    at: usize,
    pub(super) text: String,
    /// The data that the provider must receive again.
    pub(super) data: Value,
    pub(super) target: ThoughtTarget,
}

/// The part of the answer that a thought led to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ThoughtTarget {
    Open,
    Message,
    /// The call with this index in the draft.
    Call(usize),
}

impl Thought {
    pub(super) fn new(number: u64, at: usize) -> Self {
        Self { number: Some(number), at, text: String::new(), data: Value::Null, target: ThoughtTarget::Open }
    }

    /// Creates the marker that keeps data for a call.
    pub(super) fn mark(call: usize, data: Value) -> Self {
        Self { number: None, at: 0, text: String::new(), data, target: ThoughtTarget::Call(call) }
    }

    /// Creates the marker that keeps data for the whole message.
    pub(super) fn message_mark(data: Value) -> Self {
        Self { number: None, at: 0, text: String::new(), data, target: ThoughtTarget::Message }
    }

    pub(super) fn is_mark_of_message(&self) -> bool {
        self.number.is_none() && self.target == ThoughtTarget::Message
    }

    pub(super) fn is_mark_of(&self, call: usize) -> bool {
        self.number.is_none() && self.target == ThoughtTarget::Call(call)
    }

    pub(super) fn keep(&mut self, fields: Value) {
        match (&mut self.data, fields) {
            (Value::Object(kept), Value::Object(fields)) => kept.extend(fields),
            (kept, fields) => *kept = fields,
        }
    }

    /// Attaches an opaque part at the end of the answer to the last call, because the part arrived after this call. The
    /// provider refuses the part at another position.
    pub(super) fn mark_behind(&mut self, call: usize) {
        if self.target == ThoughtTarget::Open && OPAQUE.iter().any(|part| self.data.get(part).is_some()) {
            self.target = ThoughtTarget::Call(call);
            self.keep(json!({ BEHIND: true }));
        }
    }

    /// Converts the thought to its public form. `ids` are the ids of the calls. Returns `None` for an empty thought.
    pub(super) fn reasoning(self, maker: &str, ids: &[String]) -> Option<Reasoning> {
        if self.text.is_empty() && self.data.is_null() {
            return None;
        }
        let reasoning = Reasoning::new(maker, self.text).with_data(self.data);
        match self.target {
            ThoughtTarget::Call(call) => Some(reasoning.of_call(ids.get(call)?)),
            ThoughtTarget::Open | ThoughtTarget::Message => Some(reasoning.at(self.at)),
        }
    }
}
