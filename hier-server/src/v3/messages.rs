//! The messages of models in the v3 event protocol. A message consists of blocks, which begin, grow and end.

use hier_core::message::ChatChunk;
use hier_core::runs::LoggedMessage;
use serde_json::{Value, json};

use crate::stream::assembler::{Block, Growth, MessageAssembler, MessageChange, PartialMessage, field};

pub(super) fn events(messages: &mut MessageAssembler, piece: &LoggedMessage) -> Vec<Value> {
    let Some(delta) = messages.add(piece) else { return Vec::new() };
    let mut events = Vec::new();
    if delta.is_first {
        events.push(json!({
            "event": "message-start", "role": "ai", "id": piece.id, "metadata": { "langgraph_node": piece.node },
        }));
    }
    match delta.change {
        MessageChange::Grown(growth) => grown(&delta.sent.blocks, &growth, &mut events),
        MessageChange::Done(message) => done(delta.sent.into_owned(), &message, &mut events),
    }
    // Clients need the id to distinguish messages that are sent at the same time.
    for event in &mut events {
        event["message_id"] = piece.id.as_str().into();
    }
    events
}

fn grown(blocks: &[Block], growth: &Growth<'_>, events: &mut Vec<Value>) {
    let Growth { block: index, is_new, text } = *growth;
    let block = &blocks[index];
    if is_new {
        events.push(json!({ "event": "content-block-start", "index": index, "content": opening(block) }));
    }
    let delta = match block {
        Block::Text(_) => json!({ "type": "text-delta", "text": text }),
        Block::Reasoning(_) => json!({ "type": "reasoning-delta", "reasoning": text }),
        Block::Call { .. } if is_new => return,
        Block::Call { .. } => json!({ "type": "tool-call-delta", "args": text }),
    };
    events.push(json!({ "event": "content-block-delta", "index": index, "delta": delta }));
}

/// Sends the parts of a message that its pieces did not contain, and ends the message.
fn done(mut sent: PartialMessage, message: &Value, events: &mut Vec<Value>) {
    let calls = sent.missing_calls(message);
    let text = sent.missing_text(message).map(ChatChunk::Text);
    if let Some(growth) = text.as_ref().and_then(|text| sent.grow(text)) {
        grown(&sent.blocks, &growth, events);
    }
    for call in calls {
        let (id, name) = (field(call, "id").to_owned(), field(call, "name").to_owned());
        let args = call.get("args").map(Value::to_string).unwrap_or_default();
        let growth = sent.begin(Block::Call { id, name, args }, "");
        grown(&sent.blocks, &growth, events);
    }
    for (index, block) in sent.blocks.iter().enumerate() {
        let mut content = content(block);
        if let (Block::Text(text), Some(citations)) = (block, message.get("citations").and_then(Value::as_array)) {
            content["annotations"] = citations.iter().map(|citation| annotation(citation, text)).collect();
        }
        events.push(json!({ "event": "content-block-finish", "index": index, "content": content }));
    }
    let mut finish = json!({ "event": "message-finish" });
    if let Some(usage) = message.get("usage_metadata").filter(|usage| !usage.is_null()) {
        finish["usage"] = usage.clone();
    }
    events.push(finish);
}

fn content(block: &Block) -> Value {
    match block {
        Block::Text(text) => json!({ "type": "text", "text": text }),
        Block::Reasoning(text) => json!({ "type": "reasoning", "reasoning": text }),
        Block::Call { id, name, args } => {
            let parsed = serde_json::from_str::<Value>(args).unwrap_or_else(|_| json!({}));
            json!({ "type": "tool_call", "id": id, "name": name, "args": parsed })
        }
    }
}

/// Converts a citation into an annotation. The positions of citations count bytes, and the positions of annotations
/// count characters.
fn annotation(citation: &Value, text: &str) -> Value {
    let mut annotation = citation.clone();
    annotation["type"] = "citation".into();
    for (bytes, characters) in [("start", "start_index"), ("end", "end_index")] {
        let offset = citation.get(bytes).and_then(Value::as_u64).and_then(|offset| usize::try_from(offset).ok());
        if let Some(before) = offset.and_then(|offset| text.get(..offset)) {
            annotation[characters] = before.chars().count().into();
        }
    }
    if let Some(fields) = annotation.as_object_mut() {
        fields.retain(|name, _| name != "start" && name != "end");
    }
    annotation
}

fn opening(block: &Block) -> Value {
    match block {
        Block::Text(_) => json!({ "type": "text", "text": "" }),
        Block::Reasoning(_) => json!({ "type": "reasoning", "reasoning": "" }),
        Block::Call { id, name, .. } => json!({ "type": "tool_call_chunk", "id": id, "name": name, "args": "" }),
    }
}

#[cfg(test)]
mod tests {
    use hier_core::message::{ChatResponse, Citation, Message};
    use uuid::Uuid;

    use super::*;

    #[test]
    fn citations_are_annotations_of_the_text() {
        let cited = Citation::new(5..9).with_url("https://a.example").with_title("A");
        let message = Message::assistant("Für: Süd").with_citations([cited]).with_id("m");
        let mut messages = MessageAssembler::default();
        let chunk = ChatChunk::Done(ChatResponse::new(message));
        let (id, node, agent) = ("m".to_owned(), String::new(), String::new());
        let piece = LoggedMessage { id, node, task: Uuid::nil(), step: 0, path: Vec::new(), agent, chunk };
        let events = events(&mut messages, &piece);
        let finished = events.iter().find(|event| event["event"] == "content-block-finish").unwrap();
        let expected = json!({
            "type": "citation", "url": "https://a.example", "title": "A", "start_index": 4, "end_index": 7,
        });
        assert_eq!(finished["content"]["annotations"], json!([expected]));
    }
}
