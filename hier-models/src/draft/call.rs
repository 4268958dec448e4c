//! The calls of an answer, while they are read.

use std::collections::HashSet;

use hier_core::agent::ToolCall;
use serde_json::{Value, json};

/// A call while it is read.
#[derive(Debug)]
pub(super) struct CallDraft {
    /// Its number among the calls of the answer, where the server gives one.
    pub(super) index: Option<u64>,
    /// The id that the server gives.
    pub(super) id: String,
    /// The id that no other call of the conversation has, once it is settled.
    pub(super) own: Option<String>,
    pub(super) name: String,
    pub(super) args: Args,
}

#[derive(Debug)]
pub(super) enum Args {
    /// As JSON text, which comes in pieces.
    Text(String),
    Value(Value),
}

/// A piece of a call.
#[derive(Debug, Default)]
pub(crate) struct CallPiece<'a> {
    pub(crate) index: Option<u64>,
    pub(crate) id: &'a str,
    pub(crate) name: &'a str,
    pub(crate) args: &'a str,
}

impl CallDraft {
    pub(super) fn new(index: Option<u64>, id: &str, name: &str) -> Self {
        let args = Args::Text(String::new());
        Self { index, id: id.to_owned(), own: None, name: name.to_owned(), args }
    }

    /// The id of its own: that of the server, or a fresh one where that is empty or known.
    pub(super) fn settle(&mut self, known: &mut HashSet<String>) -> &str {
        let id = &self.id;
        self.own.get_or_insert_with(|| {
            let fresh = id.is_empty() || !known.insert(id.clone());
            if fresh { format!("call_{}", uuid::Uuid::new_v4().simple()) } else { id.clone() }
        })
    }

    /// The call as the answer has it.
    pub(super) fn made(self, cut_off: bool) -> ToolCall {
        let args = if cut_off { self.args.cut_off() } else { self.args.value() };
        ToolCall { name: self.name, args, id: self.own.unwrap_or_default() }
    }
}

/// The call that a piece belongs to: by its number and id; without a number by its id, else the last one.
pub(super) fn place(calls: &[CallDraft], piece: &CallPiece<'_>) -> Option<usize> {
    let other_id = |call: &CallDraft| !piece.id.is_empty() && !call.id.is_empty() && call.id != piece.id;
    if piece.index.is_some() {
        let place = calls.iter().rposition(|call| call.index == piece.index)?;
        return Some(place).filter(|place| !other_id(&calls[*place]));
    }
    if !piece.id.is_empty() {
        return calls.iter().rposition(|call| call.id == piece.id);
    }
    let last = calls.last()?;
    // A second name is that of a second call.
    (piece.name.is_empty() || last.name.is_empty()).then(|| calls.len() - 1)
}

impl Args {
    /// As far as they came as text.
    pub(super) fn text(&self) -> &str {
        match self {
            Self::Text(text) => text,
            Self::Value(_) => "",
        }
    }

    /// Arguments that came as text are JSON; what is none stays text, which the tool refuses.
    fn value(self) -> Value {
        match self {
            Self::Text(text) if text.trim().is_empty() => json!({}),
            Self::Text(text) => serde_json::from_str(&text).unwrap_or(Value::String(text)),
            Self::Value(value) => value,
        }
    }

    fn cut_off(self) -> Value {
        let text = match self {
            Self::Text(text) => text,
            Self::Value(value) => value.to_string(),
        };
        Value::String(format!("cut off by the limit of tokens: {text}"))
    }
}
