//! The forms of partial messages in the runs API.

use serde_json::{Value, json};

use super::assembler::{Block, MessageChange, MessageDelta, PartialMessage, field};

pub(super) fn partial(message: &PartialMessage) -> Value {
    json!({
        "content": message.text(), "additional_kwargs": {}, "response_metadata": {}, "type": "ai", "name": null,
        "id": message.id, "tool_calls": [], "invalid_tool_calls": [], "usage_metadata": null,
    })
}

/// Converts a piece into a chunk. Clients append each chunk of a message to the earlier chunks.
pub(super) fn chunk(delta: &MessageDelta<'_>) -> Value {
    let sent = &delta.sent;
    let mut chunk = json!({
        "content": "", "additional_kwargs": {}, "response_metadata": {}, "type": "AIMessageChunk", "name": null,
        "id": sent.id, "tool_calls": [], "invalid_tool_calls": [], "usage_metadata": null, "tool_call_chunks": [],
        "chunk_position": null,
    });
    let growth = match &delta.change {
        MessageChange::Grown(growth) => growth,
        MessageChange::Done(message) => {
            finish(&mut chunk, sent, message);
            return chunk;
        }
    };
    match &sent.blocks[growth.block] {
        Block::Text(_) => chunk["content"] = growth.text.into(),
        Block::Reasoning(_) => chunk["additional_kwargs"] = json!({ "reasoning_content": growth.text }),
        Block::Call { id, name, .. } => {
            let before = &sent.blocks[..growth.block];
            let index = before.iter().filter(|block| matches!(block, Block::Call { .. })).count();
            let (name, id) = if growth.is_new { (Some(&**name), Some(&**id)) } else { (None, None) };
            chunk["tool_call_chunks"] = json!([call_chunk(name, growth.text, id, index)]);
        }
    }
    chunk
}

/// Adds everything to the last chunk that the earlier chunks did not contain.
fn finish(chunk: &mut Value, sent: &PartialMessage, message: &Value) {
    chunk["chunk_position"] = "last".into();
    chunk["usage_metadata"] = message.get("usage_metadata").cloned().unwrap_or_default();
    chunk["response_metadata"] = message.get("response_metadata").cloned().unwrap_or_else(|| json!({}));
    if let Some(citations) = message.get("citations") {
        chunk["citations"] = citations.clone();
    }
    if sent.text().is_empty() {
        chunk["content"] = message.get("content").cloned().unwrap_or_default();
    }
    let calls = sent.missing_calls(message);
    let pieces = calls.iter().enumerate().map(|(index, call)| {
        let args = call.get("args").map(Value::to_string).unwrap_or_default();
        call_chunk(Some(field(call, "name")), &args, Some(field(call, "id")), index)
    });
    chunk["tool_call_chunks"] = pieces.collect();
    chunk["tool_calls"] = json!(calls);
}

fn call_chunk(name: Option<&str>, args: &str, id: Option<&str>, index: usize) -> Value {
    json!({ "name": name, "args": args, "id": id, "index": index, "type": "tool_call_chunk" })
}

#[cfg(test)]
mod tests {
    use hier_core::message::{ChatChunk, ChatResponse, Citation, Message};
    use hier_core::runs::LoggedMessage;
    use uuid::Uuid;

    use super::super::assembler::MessageAssembler;
    use super::*;

    #[test]
    fn last_chunk_has_the_citations() {
        let cited = Citation::new(0..4).with_url("https://a.example");
        let message = Message::assistant("Yes.").with_citations([cited]).with_id("m");
        let pieces = [ChatChunk::Text("Yes.".to_owned()), ChatChunk::Done(ChatResponse::new(message))];
        let mut messages = MessageAssembler::default();
        let chunks = pieces.map(|piece| {
            let (id, node, agent) = ("m".to_owned(), String::new(), String::new());
            let piece = LoggedMessage { id, node, task: Uuid::nil(), step: 0, path: Vec::new(), agent, chunk: piece };
            chunk(&messages.add(&piece).expect("a part of the message"))
        });
        assert_eq!((&chunks[0]["content"], chunks[0].get("citations")), (&json!("Yes."), None));
        assert_eq!(chunks[1]["citations"], json!([{ "url": "https://a.example", "start": 0, "end": 4 }]));
        assert_eq!(chunks[1]["content"], "");
    }
}
