use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use hier_agents::Citation;
use serde_json::{Value, json};

use super::super::shared::{check_no_error, field, finish_reason, list, text};
use super::{BLOCK, CITATIONS};
use crate::draft::{AnswerDraft, CallDelta, TokenCounts};
use crate::error::ModelFailure;

/// The key of the input of a kept block while it arrives.
const INPUT: &str = "input_text";

pub(super) fn read_whole(draft: &mut AnswerDraft, answer: &Value) -> Result<(), ModelFailure> {
    check_no_error(answer)?;
    let message = field(field(answer, "output"), "message");
    for (number, block) in (0..).zip(list(message, "content")) {
        read_block(draft, number, block);
    }
    draft.finish = finish_reason(answer.get("stopReason"));
    read_metadata(draft, answer);
    Ok(())
}

/// Reads an event of a stream: an object with the event's name as its only field.
pub(super) fn read_event(draft: &mut AnswerDraft, event: &Value) -> Result<(), ModelFailure> {
    check_no_error(event)?;
    let Some((name, event)) = event.as_object().and_then(|event| event.iter().next()) else { return Ok(()) };
    let index = event.get("contentBlockIndex").and_then(Value::as_u64);
    match name.as_str() {
        "contentBlockStart" => read_start(draft, index, field(event, "start")),
        "contentBlockDelta" => read_delta(draft, index, field(event, "delta")),
        "contentBlockStop" => read_end(draft, index.unwrap_or_default()),
        "messageStop" => {
            draft.finish = finish_reason(event.get("stopReason")).or(draft.finish.take());
            draft.complete = draft.finish.is_some();
        }
        "metadata" => {
            read_metadata(draft, event);
            draft.ended = draft.finish.is_some();
        }
        _ => {}
    }
    Ok(())
}

/// Reads the usage, and the model that a prompt router chose. Cached tokens are part of the prompt.
fn read_metadata(draft: &mut AnswerDraft, metadata: &Value) {
    draft.set_model(text(field(field(metadata, "trace"), "promptRouter"), "invokedModelId"));
    let usage = field(metadata, "usage");
    let tokens = |field: &str| usage.get(field).and_then(Value::as_u64);
    let (cached, cache_write) = (tokens("cacheReadInputTokens"), tokens("cacheWriteInputTokens"));
    let more = cached.unwrap_or(0).saturating_add(cache_write.unwrap_or(0));
    let input = tokens("inputTokens").map(|input| input.saturating_add(more));
    draft.set_usage(TokenCounts { input, output: tokens("outputTokens"), cached, cache_write, reasoning: None });
}

fn read_block(draft: &mut AnswerDraft, number: u64, block: &Value) {
    let Some((kind, inner)) = block.as_object().and_then(|block| block.iter().next()) else { return };
    match kind.as_str() {
        "text" => draft.add_text(inner.as_str().unwrap_or_default()),
        "citationsContent" => {
            draft.begin_text();
            for part in list(inner, "content") {
                draft.add_text(text(part, "text"));
            }
            for source in list(inner, "citations") {
                draft.add_source(source);
            }
            draft.end_text(number, CITATIONS, citation);
        }
        "toolUse" if !is_own(inner) => {
            let args = inner.get("input").cloned().unwrap_or_default();
            draft.add_call(None, text(inner, "toolUseId"), text(inner, "name"), args);
        }
        "reasoningContent" => {
            let thought = field(inner, "reasoningText");
            draft.add_thought(number, text(thought, "text"));
            keep_signature(draft, number, text(thought, "signature"));
            keep_redacted(draft, number, text(inner, "redactedContent"));
        }
        _ => draft.keep_fields(number, json!({ BLOCK: block })),
    }
}

/// Returns true for the use of a tool that Bedrock runs.
fn is_own(tool_use: &Value) -> bool {
    !text(tool_use, "type").is_empty()
}

fn keep_signature(draft: &mut AnswerDraft, number: u64, signature: &str) {
    if !signature.is_empty() {
        draft.keep_fields(number, json!({ "signature": signature }));
    }
}

/// Keeps an encrypted thought. A thought of Anthropic's models is text, and is kept in the form of Anthropic's own API.
fn keep_redacted(draft: &mut AnswerDraft, number: u64, content: &str) {
    if content.is_empty() {
        return;
    }
    let data = BASE64_STANDARD.decode(content).ok().and_then(|bytes| String::from_utf8(bytes).ok());
    draft.keep_fields(
        number,
        match data {
            Some(data) => json!({ "redacted": data }),
            None => json!({ BLOCK: { "reasoningContent": { "redactedContent": content } } }),
        },
    );
}

fn read_start(draft: &mut AnswerDraft, index: Option<u64>, start: &Value) {
    let tool_use = field(start, "toolUse");
    if !tool_use.is_null() && !is_own(tool_use) {
        draft.add_call(index, text(tool_use, "toolUseId"), text(tool_use, "name"), Value::Null);
    } else if start.as_object().is_some_and(|start| !start.is_empty()) {
        draft.keep_fields(index.unwrap_or_default(), json!({ BLOCK: start }));
    }
}

fn read_delta(draft: &mut AnswerDraft, index: Option<u64>, delta: &Value) {
    let number = index.unwrap_or_default();
    draft.add_text(text(delta, "text"));
    let thought = field(delta, "reasoningContent");
    draft.add_thought(number, text(thought, "text"));
    keep_signature(draft, number, text(thought, "signature"));
    keep_redacted(draft, number, text(thought, "redactedContent"));
    if let Some(source) = delta.get("citation").filter(|source| source.is_object()) {
        draft.add_source(source);
    }
    let args = text(field(delta, "toolUse"), "input");
    if index.is_some_and(|index| draft.has_call(index)) {
        if !args.is_empty() {
            draft.add_call_delta(&CallDelta { index, args, ..CallDelta::default() });
        }
    } else if let Some(kept) = draft.existing_thought_data(number).filter(|kept| kept.get(BLOCK).is_some()) {
        extend_block(kept, args, list(delta, "toolResult"));
    }
}

/// Extends a kept block by text of its input, or by parts of its result.
fn extend_block(kept: &mut Value, args: &str, parts: &[Value]) {
    if !args.is_empty() {
        match kept.get_mut(INPUT) {
            Some(Value::String(input)) => input.push_str(args),
            _ => kept[INPUT] = json!(args),
        }
    }
    if let Some(Value::Object(result)) = kept.pointer_mut(&format!("/{BLOCK}/toolResult"))
        && let Value::Array(content) = result.entry("content").or_insert_with(|| json!([]))
    {
        content.extend_from_slice(parts);
    }
}

fn read_end(draft: &mut AnswerDraft, number: u64) {
    draft.end_text(number, CITATIONS, citation);
    // Blocks of text have no start event.
    draft.begin_text();
    let Some(kept) = draft.existing_thought_data(number) else { return };
    let input = kept.as_object_mut().and_then(|kept| kept.remove(INPUT));
    if let Some(Value::Object(tool_use)) = kept.pointer_mut(&format!("/{BLOCK}/toolUse")) {
        let input = input.as_ref().and_then(Value::as_str).and_then(|input| serde_json::from_str(input).ok());
        tool_use.insert("input".to_owned(), input.unwrap_or_else(|| json!({})));
    }
}

/// Reads a source: a document of the request, a search result of the program, or a page of the web.
fn citation(source: &Value) -> Citation {
    let owned = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
    let cited: String = list(source, "sourceContent").iter().map(|part| text(part, "text")).collect();
    let url = text(field(field(source, "location"), "web"), "url");
    let mut citation = Citation::default();
    citation.url = owned(url).or_else(|| owned(text(source, "source")));
    citation.title = owned(text(source, "title"));
    citation.cited_text = owned(&cited);
    citation
}
