//! The blocks of Anthropic's messages: how those of an answer are read, and sent back.
//!
//! Blocks that hier has no word for, such as those of tools that the provider runs itself, are kept as they came.

use hier_agents::Reasoning;
use serde_json::{Value, json};

use super::shared::{list, text};
use crate::conversation::{Said, Word};
use crate::draft::{CallPiece, Draft};

/// Keys under which a block of an unknown kind, and its input while it arrives in pieces, are kept.
const BLOCK: &str = "block";
const INPUT: &str = "input_text";
/// The sources of a text.
const CITATIONS: &str = "citations";

/// Reads a whole block.
pub(super) fn whole(draft: &mut Draft, number: u64, block: &Value) {
    match text(block, "type") {
        "text" => {
            draft.begin_text();
            draft.say(text(block, "text"));
            for source in list(block, CITATIONS) {
                draft.cite(source);
            }
            draft.end_text(number);
        }
        "tool_use" => {
            let args = block.get("input").cloned().unwrap_or_default();
            draft.call(None, text(block, "id"), text(block, "name"), args);
        }
        _ => other(draft, number, block),
    }
}

/// Reads the beginning of a block.
pub(super) fn begin(draft: &mut Draft, index: Option<u64>, block: &Value) {
    match text(block, "type") {
        "text" => {
            draft.begin_text();
            draft.say(text(block, "text"));
        }
        "tool_use" => {
            let input = block.get("input").filter(|input| input.as_object().is_some_and(|fields| !fields.is_empty()));
            let args = input.cloned().unwrap_or_default();
            draft.call(index, text(block, "id"), text(block, "name"), args);
        }
        _ => other(draft, index.unwrap_or_default(), block),
    }
}

/// Reads more of a block.
pub(super) fn add(draft: &mut Draft, index: Option<u64>, delta: &Value) {
    draft.say(text(delta, "text"));
    let number = index.unwrap_or_default();
    draft.think(number, text(delta, "thinking"));
    let signature = text(delta, "signature");
    if !signature.is_empty() {
        draft.keep(number, json!({ "signature": signature }));
    }
    if let Some(source) = delta.get("citation").filter(|source| source.is_object()) {
        draft.cite(source);
    }
    let args = text(delta, "partial_json");
    if args.is_empty() {
        return;
    }
    if index.is_some_and(|index| draft.has_call(index)) {
        draft.piece(&CallPiece { index, args, ..CallPiece::default() });
    } else if let Some(kept) = draft.known(number).filter(|kept| kept.get(BLOCK).is_some()) {
        match kept.get_mut(INPUT) {
            Some(Value::String(input)) => input.push_str(args),
            _ => kept[INPUT] = json!(args),
        }
    }
}

/// Reads the end of a block.
pub(super) fn end(draft: &mut Draft, index: Option<u64>) {
    let number = index.unwrap_or_default();
    draft.end_text(number);
    let Some(kept) = draft.known(number) else { return };
    let input = kept.as_object_mut().and_then(|kept| kept.remove(INPUT));
    if let Some(input) = input.as_ref().and_then(Value::as_str)
        && let Ok(input) = serde_json::from_str::<Value>(input)
    {
        kept[BLOCK]["input"] = input;
    }
}

/// Reads a block of thinking, or the beginning of one, and keeps any other.
fn other(draft: &mut Draft, number: u64, block: &Value) {
    match text(block, "type") {
        "thinking" => {
            draft.think(number, text(block, "thinking"));
            let signature = text(block, "signature");
            if !signature.is_empty() {
                draft.keep(number, json!({ "signature": signature }));
            }
        }
        "redacted_thinking" => draft.keep(number, json!({ "redacted": text(block, "data") })),
        "" => {}
        _ => draft.keep(number, json!({ BLOCK: block })),
    }
}

/// Returns the blocks of the model's thoughts, texts and calls. Each call follows the thoughts that led to it.
pub(super) fn said(said: &Said<'_>) -> Vec<Value> {
    let mut blocks = Vec::new();
    for word in said.words() {
        match word {
            Word::Thought(thought) => put(&mut blocks, thought),
            Word::Said(text) => blocks.push(json!({ "type": "text", "text": text })),
        }
    }
    for call in &said.calls {
        call.thoughts.iter().for_each(|thought| put(&mut blocks, thought));
        blocks.push(json!({ "type": "tool_use", "id": call.id, "name": call.name, "input": call.args }));
    }
    blocks
}

fn put(blocks: &mut Vec<Value>, thought: &Reasoning) {
    let data = &thought.data;
    if let Some(signature) = data.get("signature") {
        blocks.push(json!({ "type": "thinking", "thinking": thought.text, "signature": signature }));
    } else if let Some(redacted) = data.get("redacted") {
        blocks.push(json!({ "type": "redacted_thinking", "data": redacted }));
    } else if let Some(block) = data.get(BLOCK) {
        blocks.push(block.clone());
    } else if let Some(sources) = data.get(CITATIONS) {
        let length = data.get("length").and_then(Value::as_u64).and_then(|length| usize::try_from(length).ok());
        cite(blocks, sources, length.unwrap_or_default());
    }
}

/// Gives the last text, or as much of its end as has this length, its sources.
fn cite(blocks: &mut Vec<Value>, sources: &Value, length: usize) {
    let Some(last) = blocks.last_mut().filter(|last| last["type"] == "text") else { return };
    let text = text(last, "text").to_owned();
    let Some((before, cited)) = text.len().checked_sub(length).and_then(|at| text.split_at_checked(at)) else { return };
    if cited.trim().is_empty() {
        return;
    }
    *last = json!({ "type": "text", "text": cited, CITATIONS: sources });
    if !before.trim().is_empty() {
        let place = blocks.len() - 1;
        blocks.insert(place, json!({ "type": "text", "text": before }));
    }
}
