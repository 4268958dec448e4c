//! The content blocks of Anthropic's messages.
//!
//! Blocks without a counterpart in hier, such as those of server-side tools, are kept unchanged.

use hier_agents::{Citation, Reasoning};
use serde_json::{Value, json};

use super::shared::{list, text};
use crate::conversation::{AnsweredCall, ModelTurn, Segment};
use crate::draft::{AnswerDraft, CallDelta};

/// The keys under which an unknown block, and its input while it arrives, are kept.
const BLOCK: &str = "block";
const INPUT: &str = "input_text";
/// The key of a text's sources.
const CITATIONS: &str = "citations";

pub(super) fn read_whole(draft: &mut AnswerDraft, number: u64, block: &Value) {
    match text(block, "type") {
        "text" => {
            draft.begin_text();
            draft.add_text(text(block, "text"));
            for source in list(block, CITATIONS) {
                draft.add_source(source);
            }
            draft.end_text(number, CITATIONS, citation);
        }
        "tool_use" => {
            let args = block.get("input").cloned().unwrap_or_default();
            draft.add_call(None, text(block, "id"), text(block, "name"), args);
        }
        _ => read_other(draft, number, block),
    }
}

pub(super) fn read_start(draft: &mut AnswerDraft, index: Option<u64>, block: &Value) {
    match text(block, "type") {
        "text" => {
            draft.begin_text();
            draft.add_text(text(block, "text"));
        }
        "tool_use" => {
            let input = block.get("input").filter(|input| input.as_object().is_some_and(|fields| !fields.is_empty()));
            let args = input.cloned().unwrap_or_default();
            draft.add_call(index, text(block, "id"), text(block, "name"), args);
        }
        _ => read_other(draft, index.unwrap_or_default(), block),
    }
}

pub(super) fn read_delta(draft: &mut AnswerDraft, index: Option<u64>, delta: &Value) {
    draft.add_text(text(delta, "text"));
    let number = index.unwrap_or_default();
    draft.add_thought(number, text(delta, "thinking"));
    let signature = text(delta, "signature");
    if !signature.is_empty() {
        draft.keep_fields(number, json!({ "signature": signature }));
    }
    if let Some(source) = delta.get("citation").filter(|source| source.is_object()) {
        draft.add_source(source);
    }
    let args = text(delta, "partial_json");
    if args.is_empty() {
        return;
    }
    if index.is_some_and(|index| draft.has_call(index)) {
        draft.add_call_delta(&CallDelta { index, args, ..CallDelta::default() });
    } else if let Some(kept) = draft.existing_thought_data(number).filter(|kept| kept.get(BLOCK).is_some()) {
        match kept.get_mut(INPUT) {
            Some(Value::String(input)) => input.push_str(args),
            _ => kept[INPUT] = json!(args),
        }
    }
}

pub(super) fn read_end(draft: &mut AnswerDraft, index: Option<u64>) {
    let number = index.unwrap_or_default();
    draft.end_text(number, CITATIONS, citation);
    let Some(kept) = draft.existing_thought_data(number) else { return };
    let input = kept.as_object_mut().and_then(|kept| kept.remove(INPUT));
    if let Some(input) = input.as_ref().and_then(Value::as_str)
        && let Ok(input) = serde_json::from_str::<Value>(input)
    {
        kept[BLOCK]["input"] = input;
    }
}

/// Reads a block of thoughts, or its start. Keeps other blocks unchanged.
fn read_other(draft: &mut AnswerDraft, number: u64, block: &Value) {
    match text(block, "type") {
        "thinking" => {
            draft.add_thought(number, text(block, "thinking"));
            let signature = text(block, "signature");
            if !signature.is_empty() {
                draft.keep_fields(number, json!({ "signature": signature }));
            }
        }
        "redacted_thinking" => draft.keep_fields(number, json!({ "redacted": text(block, "data") })),
        "" => {}
        _ => draft.keep_fields(number, json!({ BLOCK: block })),
    }
}

/// Reads a source: a page of a search, a document of the request, or a search result of the program.
fn citation(source: &Value) -> Citation {
    let first = |names: &[&str]| names.iter().map(|name| text(source, name)).find(|text| !text.is_empty());
    let mut citation = Citation::default();
    citation.url = first(&["url", "source"]).map(str::to_owned);
    citation.title = first(&["title", "document_title"]).map(str::to_owned);
    citation.cited_text = first(&["cited_text"]).map(str::to_owned);
    citation.file_id = first(&["file_id"]).map(str::to_owned);
    citation
}

pub(super) fn model_blocks(turn: &ModelTurn<'_>) -> Vec<Value> {
    let text = |text: &str| json!({ "type": "text", "text": text });
    let call =
        |call: &AnsweredCall<'_>| json!({ "type": "tool_use", "id": call.id, "name": call.name, "input": call.args });
    blocks_of(turn, push_thought, text, call)
}

/// Returns the blocks of the model's thoughts, texts and calls. Each call follows the thoughts that led to it.
pub(super) fn blocks_of(
    turn: &ModelTurn<'_>,
    push_thought: fn(&mut Vec<Value>, &Reasoning),
    text_block: impl Fn(&str) -> Value,
    call_block: impl Fn(&AnsweredCall<'_>) -> Value,
) -> Vec<Value> {
    let mut blocks = Vec::new();
    for segment in turn.segments() {
        match segment {
            Segment::Thought(thought) => push_thought(&mut blocks, thought),
            Segment::Text(text) => blocks.push(text_block(text)),
        }
    }
    for call in &turn.calls {
        call.thoughts_before().for_each(|thought| push_thought(&mut blocks, thought));
        blocks.push(call_block(call));
        call.parts_behind().for_each(|part| push_thought(&mut blocks, part));
    }
    blocks
}

fn push_thought(blocks: &mut Vec<Value>, thought: &Reasoning) {
    let data = &thought.data;
    if let Some(signature) = data.get("signature") {
        blocks.push(json!({ "type": "thinking", "thinking": thought.text, "signature": signature }));
    } else if let Some(redacted) = data.get("redacted") {
        blocks.push(json!({ "type": "redacted_thinking", "data": redacted }));
    } else if let Some(block) = data.get(BLOCK) {
        blocks.push(block.clone());
    } else if let Some(sources) = data.get(CITATIONS) {
        add_sources(blocks, sources, data);
    }
}

/// Adds sources to the last text, or to the part of it that they support.
fn add_sources(blocks: &mut Vec<Value>, sources: &Value, data: &Value) {
    let Some(last) = blocks.last_mut().filter(|last| last["type"] == "text") else { return };
    let whole = text(last, "text").to_owned();
    let Some((before, cited)) = split_cited(&whole, data) else { return };
    *last = json!({ "type": "text", "text": cited, CITATIONS: sources });
    if !before.trim().is_empty() {
        let place = blocks.len() - 1;
        blocks.insert(place, json!({ "type": "text", "text": before }));
    }
}

/// Splits a text before its end that the sources support. Returns `None` if the text was edited and has no such end.
pub(super) fn split_cited<'t>(text: &'t str, data: &Value) -> Option<(&'t str, &'t str)> {
    let length = data.get("length").and_then(Value::as_u64).and_then(|length| usize::try_from(length).ok())?;
    let (before, cited) = text.len().checked_sub(length).and_then(|at| text.split_at_checked(at))?;
    (!cited.trim().is_empty()).then_some((before, cited))
}
