//! The calls of an answer, while they are read.

use std::collections::HashSet;

use hier_agents::ToolCall;
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
    braces: Braces,
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
        Self { index, id: id.to_owned(), own: None, name: name.to_owned(), args, braces: Braces::default() }
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
    pub(super) fn made(self, cut_off_by: Option<&str>) -> ToolCall {
        let args = match cut_off_by {
            Some(why) => self.args.cut_off(why),
            None => self.args.value(),
        };
        ToolCall { name: self.name, args, id: self.own.unwrap_or_default() }
    }
}

/// The call that a piece continues; none if it begins another.
///
/// Servers number calls, or name them by id, or neither, and some give each piece of one call a new id, or all calls one
/// number. A piece therefore begins another call only if it says so in two ways.
pub(super) fn place(calls: &[CallDraft], piece: &CallPiece<'_>) -> Option<usize> {
    if piece.index.is_none()
        && !piece.id.is_empty()
        && let Some(place) = calls.iter().rposition(|call| call.id == piece.id)
    {
        return Some(place);
    }
    let place = match piece.index {
        Some(index) => calls.iter().rposition(|call| call.index == Some(index))?,
        None => calls.len().checked_sub(1)?,
    };
    let call = &calls[place];
    let (has_other_id, has_other_name) = (is_other(&call.id, piece.id), is_other(&call.name, piece.name));
    let begins = match piece {
        CallPiece { name: "", .. } => false,
        CallPiece { id, .. } if !id.is_empty() && call.id == *id => false,
        CallPiece { index: None, .. } if has_other_id => true,
        _ => has_other_name || (!call.name.is_empty() && call.is_whole()),
    };
    (!begins).then_some(place)
}

fn is_other(known: &str, given: &str) -> bool {
    !known.is_empty() && !given.is_empty() && known != given
}

/// Finds the end of a JSON object whose text arrives in pieces.
#[derive(Debug, Default)]
pub(super) struct Braces {
    depth: u32,
    in_text: bool,
    escaped: bool,
    /// The outermost object has ended.
    is_closed: bool,
}

impl Braces {
    /// Reads more text. Returns where in it the object ends, and where the next one begins.
    fn read(&mut self, text: &str) -> (usize, usize) {
        let mut end = None;
        for (at, byte) in text.bytes().enumerate() {
            if self.is_closed {
                match byte {
                    b'{' => return (end.unwrap_or(at), at),
                    b' ' | b'\t' | b'\r' | b'\n' | b',' => _ = end.get_or_insert(at),
                    // This is not a second object, so it stays where it is.
                    _ => end = None,
                }
                continue;
            }
            match byte {
                _ if self.escaped => self.escaped = false,
                b'\\' if self.in_text => self.escaped = true,
                b'"' => self.in_text = !self.in_text,
                b'{' | b'[' if !self.in_text => self.depth = self.depth.saturating_add(1),
                b'}' | b']' if !self.in_text => {
                    self.depth = self.depth.saturating_sub(1);
                    self.is_closed = self.depth == 0;
                }
                _ => {}
            }
        }
        (end.unwrap_or(text.len()), text.len())
    }
}

impl CallDraft {
    /// Adds text to the arguments. Returns what was added, and what belongs to another call: of a call without an id the
    /// text from the second object on. None if the arguments did not come as text.
    pub(super) fn add<'t>(&mut self, text: &'t str) -> Option<(&'t str, &'t str)> {
        let Args::Text(args) = &mut self.args else { return None };
        let (end, next) = self.braces.read(text);
        let (own, rest) = if self.id.is_empty() { (&text[..end], &text[next..]) } else { (text, "") };
        args.push_str(own);
        Some((own, rest))
    }

    fn is_whole(&self) -> bool {
        self.braces.is_closed || matches!(self.args, Args::Value(_))
    }
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

    fn cut_off(self, why: &str) -> Value {
        let text = match self {
            Self::Text(text) => text,
            Self::Value(value) => value.to_string(),
        };
        Value::String(format!("cut off by {why}: {text}"))
    }
}
