//! Messages of models as the second protocol tells them: blocks that begin, grow and end.

use std::collections::HashMap;

use hier_core::runs::LoggedMessage;
use serde_json::{Value, json};

use crate::stream::speech::{Piece, Speeches, What};

/// The messages that are being spoken in a run.
#[derive(Debug, Default)]
pub(crate) struct Spoken {
    speeches: Speeches,
    blocks: HashMap<String, Vec<Block>>,
}

/// A block of a message, with what it holds so far.
#[derive(Debug)]
enum Block {
    Text(String),
    Reasoning(String),
    Call { id: String, name: String, args: String },
}

impl Block {
    fn content(&self) -> Value {
        match self {
            Self::Text(text) => json!({ "type": "text", "text": text }),
            Self::Reasoning(text) => json!({ "type": "reasoning", "reasoning": text }),
            Self::Call { id, name, args } => {
                let parsed = serde_json::from_str::<Value>(args).unwrap_or_else(|_| json!({}));
                json!({ "type": "tool_call", "id": id, "name": name, "args": parsed })
            }
        }
    }

    /// What it is when it begins.
    fn opening(&self) -> Value {
        match self {
            Self::Text(_) => json!({ "type": "text", "text": "" }),
            Self::Reasoning(_) => json!({ "type": "reasoning", "reasoning": "" }),
            Self::Call { id, name, .. } => json!({ "type": "tool_call_chunk", "id": id, "name": name, "args": "" }),
        }
    }
}

impl Spoken {
    /// What is told of an event of the mode `messages`.
    pub(crate) fn take(&mut self, message: &LoggedMessage) -> Vec<Value> {
        let Some(piece) = self.speeches.take(message) else { return Vec::new() };
        let mut told = Vec::new();
        if piece.is_first {
            told.push(json!({
                "event": "message-start", "role": "ai", "id": piece.id, "metadata": { "langgraph_node": message.node },
            }));
        }
        let blocks = self.blocks.entry(piece.id.clone()).or_default();
        grow(blocks, &piece, &mut told);
        if let What::Done { message, .. } = &piece.what {
            for (index, block) in blocks.iter().enumerate() {
                told.push(json!({ "event": "content-block-finish", "index": index, "content": block.content() }));
            }
            let mut finish = json!({ "event": "message-finish" });
            if let Some(usage) = message.get("usage_metadata").filter(|usage| !usage.is_null()) {
                finish["usage"] = usage.clone();
            }
            told.push(finish);
            self.blocks.remove(&piece.id);
        }
        // Without it, two messages that are spoken at once could not be told apart.
        for event in &mut told {
            event["message_id"] = piece.id.clone().into();
        }
        told
    }

    /// Notes a message that is told as a whole; false if it is known.
    pub(crate) fn note(&mut self, id: &str) -> bool {
        self.speeches.note(id)
    }
}

fn open(blocks: &mut Vec<Block>, block: Block, told: &mut Vec<Value>) -> usize {
    let index = blocks.len();
    told.push(json!({ "event": "content-block-start", "index": index, "content": block.opening() }));
    blocks.push(block);
    index
}

fn delta(told: &mut Vec<Value>, index: usize, delta: &Value) {
    told.push(json!({ "event": "content-block-delta", "index": index, "delta": delta }));
}

fn grow(blocks: &mut Vec<Block>, piece: &Piece, told: &mut Vec<Value>) {
    match &piece.what {
        What::Text(text) => say(blocks, text, told),
        What::Reasoning(text) => {
            let found = blocks.iter_mut().enumerate().find_map(|(index, block)| match block {
                Block::Reasoning(so_far) => Some((index, so_far)),
                _ => None,
            });
            let index = if let Some((index, so_far)) = found {
                so_far.push_str(text);
                index
            } else {
                open(blocks, Block::Reasoning(text.clone()), told)
            };
            delta(told, index, &json!({ "type": "reasoning-delta", "reasoning": text }));
        }
        What::Call { id, name, .. } => {
            open(blocks, Block::Call { id: id.clone(), name: name.clone(), args: String::new() }, told);
        }
        What::Arguments { index, text, .. } => {
            let calls = blocks.iter_mut().enumerate().filter(|(_, block)| matches!(block, Block::Call { .. }));
            if let Some((place, Block::Call { args, .. })) = calls.into_iter().nth(*index) {
                args.push_str(text);
                delta(told, place, &json!({ "type": "tool-call-delta", "args": text }));
            }
        }
        What::Done { message, .. } => rest(blocks, message, told),
    }
}

fn say(blocks: &mut Vec<Block>, text: &str, told: &mut Vec<Value>) {
    let found = blocks.iter_mut().enumerate().find_map(|(index, block)| match block {
        Block::Text(so_far) => Some((index, so_far)),
        _ => None,
    });
    let index = if let Some((index, so_far)) = found {
        so_far.push_str(text);
        index
    } else {
        open(blocks, Block::Text(text.to_owned()), told)
    };
    delta(told, index, &json!({ "type": "text-delta", "text": text }));
}

/// What the pieces have not told of the whole.
fn rest(blocks: &mut Vec<Block>, message: &Value, told: &mut Vec<Value>) {
    let has = |blocks: &[Block], is: fn(&Block) -> bool| blocks.iter().any(is);
    if !has(blocks, |block| matches!(block, Block::Text(_))) {
        let text = crate::wire::message::text(message);
        if !text.is_empty() {
            say(blocks, &text, told);
        }
    }
    if !has(blocks, |block| matches!(block, Block::Call { .. })) {
        for call in message.get("tool_calls").and_then(Value::as_array).into_iter().flatten() {
            let field = |name: &str| call.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
            let args = call.get("args").map(Value::to_string).unwrap_or_default();
            open(blocks, Block::Call { id: field("id"), name: field("name"), args }, told);
        }
    }
}
