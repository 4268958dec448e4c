//! The calls of an answer while it is read.

use std::collections::HashSet;

use hier_agents::ToolCall;
use serde_json::{Value, json};

#[derive(Debug)]
pub(super) struct CallDraft {
    /// The number of the call in the answer, if the server sends one.
    pub(super) index: Option<u64>,
    /// The id that the server sends.
    pub(super) id: String,
    /// The unique id, once it is assigned.
    pub(super) unique_id: Option<String>,
    pub(super) name: String,
    pub(super) args: Args,
    scanner: ObjectScanner,
}

#[derive(Debug)]
pub(super) enum Args {
    /// JSON text, which arrives in pieces.
    Text(String),
    Value(Value),
}

/// A part of a call, as a stream delivers it.
#[derive(Debug, Default)]
pub(crate) struct CallDelta<'a> {
    pub(crate) index: Option<u64>,
    pub(crate) id: &'a str,
    pub(crate) name: &'a str,
    pub(crate) args: &'a str,
}

impl CallDraft {
    pub(super) fn new(index: Option<u64>, id: &str, name: &str) -> Self {
        let args = Args::Text(String::new());
        Self {
            index,
            id: id.to_owned(),
            unique_id: None,
            name: name.to_owned(),
            args,
            scanner: ObjectScanner::default(),
        }
    }

    /// Assigns a unique id: the server's id, or a new id if the server's id is empty or already used.
    pub(super) fn assign_id(&mut self, known: &mut HashSet<String>) -> &str {
        let id = &self.id;
        self.unique_id.get_or_insert_with(|| {
            let fresh = id.is_empty() || !known.insert(id.clone());
            if fresh { format!("call_{}", uuid::Uuid::new_v4().simple()) } else { id.clone() }
        })
    }

    pub(super) fn into_tool_call(self, cut_off_by: Option<&str>) -> ToolCall {
        let args = match cut_off_by {
            Some(why) => self.args.cut_off(why),
            None => self.args.value(),
        };
        ToolCall { name: self.name, args, id: self.unique_id.unwrap_or_default() }
    }
}

/// Returns the index of the call that a delta continues, or `None` if the delta starts another call.
///
/// Some servers number the calls, others send ids, and others send neither. Some send a new id with each delta, or one
/// number for all calls. A delta with a new number starts a call. Any other delta starts a call only if it has a name
/// and a second sign: another id, another name, or a complete object before it. An empty delta without an id needs another
/// name.
pub(super) fn continued_call(calls: &[CallDraft], delta: &CallDelta<'_>) -> Option<usize> {
    if delta.index.is_none()
        && !delta.id.is_empty()
        && let Some(place) = calls.iter().rposition(|call| call.id == delta.id)
    {
        return Some(place);
    }
    let place = match delta.index {
        Some(index) => calls.iter().rposition(|call| call.index == Some(index))?,
        None => calls.len().checked_sub(1)?,
    };
    let call = &calls[place];
    let (has_other_id, has_other_name) = (is_other(&call.id, delta.id), is_other(&call.name, delta.name));
    let begins = match delta {
        CallDelta { name: "", .. } => false,
        CallDelta { id, .. } if !id.is_empty() && call.id == *id => false,
        CallDelta { index: None, .. } if has_other_id => true,
        // If the call has no id, the next object starts a call even without a name.
        CallDelta { id: "", args: "", .. } => has_other_name,
        _ => has_other_name || (!call.name.is_empty() && call.is_whole()),
    };
    (!begins).then_some(place)
}

fn is_other(known: &str, given: &str) -> bool {
    !known.is_empty() && !given.is_empty() && known != given
}

/// Finds the end of a JSON object whose text arrives in pieces.
#[derive(Debug, Default)]
pub(super) struct ObjectScanner {
    depth: u32,
    in_text: bool,
    escaped: bool,
    /// True once the outermost object has ended.
    is_closed: bool,
}

impl ObjectScanner {
    /// Reads more text. Returns the offsets of the end of this object and of the start of the next object.
    fn read(&mut self, text: &str) -> (usize, usize) {
        let mut end = None;
        for (at, byte) in text.bytes().enumerate() {
            if self.is_closed {
                match byte {
                    b'{' => return (end.unwrap_or(at), at),
                    b' ' | b'\t' | b'\r' | b'\n' | b',' => _ = end.get_or_insert(at),
                    // Other characters do not start a second object, so they belong to this one.
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
    /// Adds text to the arguments. Returns the added text, and the text of another call: if the call has no id, each
    /// further object starts a call. Returns `None` if the arguments arrived as a value.
    pub(super) fn add<'t>(&mut self, text: &'t str) -> Option<(&'t str, &'t str)> {
        let Args::Text(args) = &mut self.args else { return None };
        let (end, next) = self.scanner.read(text);
        let (own, rest) = if self.id.is_empty() { (&text[..end], &text[next..]) } else { (text, "") };
        args.push_str(own);
        Some((own, rest))
    }

    fn is_whole(&self) -> bool {
        self.scanner.is_closed || matches!(self.args, Args::Value(_))
    }
}

impl Args {
    /// Returns the text that has arrived. Returns an empty text if the arguments arrived as a value.
    pub(super) fn text(&self) -> &str {
        match self {
            Self::Text(text) => text,
            Self::Value(_) => "",
        }
    }

    /// Parses the text. A text that is not JSON becomes a string, which the tool refuses. Some servers send an empty
    /// text or `null` for a call without arguments.
    fn value(self) -> Value {
        match self {
            Self::Text(text) if matches!(text.trim(), "" | "null") => json!({}),
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
