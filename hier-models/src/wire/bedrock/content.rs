//! The messages of the Converse API.
//!
//! The roles alternate, and the results of calls follow the calls. If no tool is declared, Bedrock refuses blocks of
//! calls, so calls become text.

use hier_agents::{Content, Reasoning};
use serde_json::{Value, json};

use super::super::blocks::{blocks_of, split_cited};
use super::super::shared::text;
use super::family::Family;
use super::files::{DocumentNames, media_block};
use super::{BLOCK, CITATIONS};
use crate::conversation::{AnsweredCall, BEGINNING, ConversationTurn, ModelTurn, WireConversation};
use crate::media::{ContentPart, content_parts};

/// The model's message between the results of calls and a user message that Bedrock refuses next to them.
const RECEIVED: &str = "I have received the results.";
/// The text next to documents, without which Bedrock refuses them.
const DOCUMENTS: &str = "Read the attached documents.";
const EMPTY: &str = "The result is empty.";

/// Returns the messages of a conversation. Without declared tools, calls are sent as text.
pub(super) fn messages(conversation: &WireConversation<'_>, family: Family, declares_tools: bool) -> Vec<Value> {
    let mut writer = MessageWriter { family, declares_tools, names: DocumentNames::default(), messages: Vec::new() };
    for turn in &conversation.turns {
        match turn {
            ConversationTurn::User(content) => {
                let blocks = writer.blocks(content);
                writer.push("user", blocks);
            }
            ConversationTurn::Model(turn) => {
                let blocks = writer.model_blocks(turn);
                writer.push("assistant", blocks);
                let results = turn.calls.iter().flat_map(|call| writer.result(call)).collect();
                writer.push("user", results);
            }
        }
    }
    writer.finish()
}

struct MessageWriter {
    family: Family,
    declares_tools: bool,
    names: DocumentNames,
    messages: Vec<(&'static str, Vec<Value>)>,
}

impl MessageWriter {
    /// Adds blocks to the last message if it has the same role, since the roles must alternate.
    fn push(&mut self, role: &'static str, blocks: Vec<Value>) {
        if blocks.is_empty() {
            return;
        }
        let family = self.family;
        match self.messages.last_mut() {
            Some((last, known)) if *last == role && can_join(family, known, &blocks) => known.extend(blocks),
            last => {
                if last.is_some_and(|(last, _)| *last == role) {
                    self.messages.push(("assistant", vec![json!({ "text": RECEIVED })]));
                }
                self.messages.push((role, blocks));
            }
        }
    }

    fn finish(mut self) -> Vec<Value> {
        if self.messages.first().is_none_or(|(role, _)| *role != "user") {
            self.messages.insert(0, ("user", vec![json!({ "text": BEGINNING })]));
        }
        let message = |(role, mut blocks): (&str, Vec<Value>)| {
            let has = |kind: &str| blocks.iter().any(|block| block.get(kind).is_some());
            if has("document") && !has("text") {
                blocks.push(json!({ "text": DOCUMENTS }));
            }
            json!({ "role": role, "content": blocks })
        };
        self.messages.into_iter().map(message).collect()
    }

    /// Returns the blocks of a content without blank texts, which Bedrock refuses.
    fn blocks(&mut self, content: &Content) -> Vec<Value> {
        let mut block = |part| match part {
            ContentPart::Text(text) if text.trim().is_empty() => None,
            ContentPart::Text(text) => Some(json!({ "text": text })),
            ContentPart::Media(media) => Some(
                media_block(&media, &mut self.names).unwrap_or_else(|why| json!({ "text": media.omission_note(&why) })),
            ),
        };
        content_parts(content).into_iter().filter_map(&mut block).collect()
    }

    fn model_blocks(&self, turn: &ModelTurn<'_>) -> Vec<Value> {
        let call = |call: &AnsweredCall<'_>| {
            if self.declares_tools {
                json!({ "toolUse": { "toolUseId": call.id, "name": call.name, "input": call.args } })
            } else {
                json!({ "text": format!("I called the tool `{}` with {}.", call.name, call.args) })
            }
        };
        blocks_of(turn, push_thought, |text| json!({ "text": text }), call)
    }

    fn result(&mut self, call: &AnsweredCall<'_>) -> Vec<Value> {
        let mut content = self.blocks(&call.result);
        if content.is_empty() {
            content.push(json!({ "text": EMPTY }));
        }
        if !self.declares_tools {
            content.insert(0, json!({ "text": format!("The result of the tool `{}`:", call.name) }));
            return content;
        }
        let mut result = json!({ "toolUseId": call.id, "content": content });
        if call.failed {
            result["status"] = json!("error");
        }
        vec![json!({ "toolResult": result })]
    }
}

/// Returns true if these blocks of two user messages may be sent in one message.
fn can_join(family: Family, first: &[Value], second: &[Value]) -> bool {
    let mut all = first.iter().chain(second);
    if !all.clone().any(|block| block.get("toolResult").is_some()) {
        return true;
    }
    all.all(|block| {
        let kind = block.as_object().and_then(|block| block.keys().next()).map_or("", String::as_str);
        kind == "toolResult" || family.allows_beside_results(kind)
    })
}

fn push_thought(blocks: &mut Vec<Value>, thought: &Reasoning) {
    let data = &thought.data;
    if let Some(signature) = data.get("signature") {
        let text = json!({ "text": thought.text, "signature": signature });
        blocks.push(json!({ "reasoningContent": { "reasoningText": text } }));
    } else if data.get("redacted").is_some() {
        let content = base64::Engine::encode(&base64::prelude::BASE64_STANDARD, text(data, "redacted"));
        blocks.push(json!({ "reasoningContent": { "redactedContent": content } }));
    } else if let Some(block) = data.get(BLOCK) {
        blocks.push(block.clone());
    } else if let Some(sources) = data.get(CITATIONS) {
        add_sources(blocks, sources, data);
    }
}

/// Adds sources to the last text, or to the part of it that they support.
fn add_sources(blocks: &mut Vec<Value>, sources: &Value, data: &Value) {
    let Some(last) = blocks.last_mut().filter(|last| last.get("text").is_some()) else { return };
    let whole = text(last, "text").to_owned();
    let Some((before, cited)) = split_cited(&whole, data) else { return };
    *last = json!({ "citationsContent": { "content": [{ "text": cited }], "citations": sources } });
    if !before.trim().is_empty() {
        let place = blocks.len() - 1;
        blocks.insert(place, json!({ "text": before }));
    }
}
