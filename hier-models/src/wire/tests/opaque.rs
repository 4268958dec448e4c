//! The provider's own tools, and the parts of answers that only the provider can read.

use hier_agents::{ChatRequest, Message, ModelOptions};
use serde_json::{Value, json};

use super::super::*;
use super::{asking, sent};

/// The tools in `extra` are added to the program's tools in every dialect.
#[test]
fn provider_tools_are_added() {
    let own = json!({ "type": "web_search" });
    let options = ModelOptions::new().extra(json!({ "tools": [own], "metadata": { "user": "a" } }));
    for wire in ALL {
        let body = sent(wire, "m", &asking(options.clone())).unwrap();
        let plain = sent(wire, "m", &asking(ModelOptions::new())).unwrap();
        let mut expected = plain["tools"].as_array().unwrap().clone();
        expected.push(own.clone());
        assert_eq!(
            (&body["tools"], &body["metadata"]["user"]),
            (&json!(expected), &json!("a")),
            "{}",
            wire.info().name
        );
        let alone = sent(wire, "m", &ChatRequest::new([Message::user("hi")]).options(options.clone())).unwrap();
        assert_eq!(alone["tools"], json!([own]), "{}", wire.info().name);
    }
    // Lists of hier itself are extended, too.
    let options = ModelOptions::new().extra(json!({ "include": ["web_search_call.action.sources"] }));
    let body = sent(RESPONSES, "gpt-5", &asking(options)).unwrap();
    assert_eq!(body["include"], json!(["reasoning.encrypted_content", "web_search_call.action.sources"]));
}

fn read(wire: &dyn Dialect, whole: &Value) -> Message {
    let request = ChatRequest::new([Message::user("hi")]);
    let mut draft = AnswerDraft::new(&request, wire.maker("m", wire.info().url), false);
    wire.read_answer(&mut draft, whole).unwrap();
    draft.into_answer().unwrap().message
}

#[test]
fn provider_blocks_are_sent_back_unchanged() {
    let search = json!({ "type": "server_tool_use", "id": "s1", "name": "web_search", "input": { "q": "x" } });
    let found =
        json!({ "type": "web_search_tool_result", "tool_use_id": "s1", "content": [{ "encrypted_content": "c" }] });
    let cited = json!({ "type": "text", "text": "It is so.", "citations": [{ "type": "web_search_result_location" }] });
    let call = json!({ "type": "tool_use", "id": "a", "name": "look", "input": {} });
    let content = json!([{ "type": "text", "text": "I search. " }, search, found, { "type": "text", "text": "Well: " }, cited, call]);
    let anthropic = json!({ "content": content, "stop_reason": "tool_use" });
    let item =
        json!({ "type": "web_search_call", "id": "ws_1", "status": "completed", "action": { "type": "search" } });
    let thought = json!({ "type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "c" });
    let said = json!({ "type": "message", "role": "assistant", "content": [{ "type": "output_text", "text": "so" }] });
    let responses = json!({ "status": "completed", "output": [thought, item, said] });
    let code = json!({ "executableCode": { "language": "PYTHON", "code": "1" } });
    let outcome = json!({ "codeExecutionResult": { "outcome": "OUTCOME_OK", "output": "1" } });
    let parts = json!([{ "text": "I count. " }, code, outcome, { "text": "One." }]);
    let gemini = json!({ "candidates": [{ "content": { "parts": parts }, "finishReason": "STOP" }] });
    let cases: [(&dyn Dialect, Value, &str, Value); 3] = [
        (ANTHROPIC, anthropic, "/messages/1/content", content),
        (RESPONSES, responses, "/input", json!([thought, item, said])),
        (GEMINI, gemini, "/contents/1/parts", parts),
    ];
    for (wire, whole, path, expected) in cases {
        let message = read(wire, &whole);
        let body = sent(wire, "m", &ChatRequest::new([Message::user("hi"), message.clone()])).unwrap();
        let mut back = body.pointer(path).unwrap().as_array().unwrap().clone();
        back.retain(|item| item["role"] != "user");
        assert_eq!(json!(back), expected, "{}", wire.info().name);
        for other in ALL.into_iter().filter(|other| other.info().name != wire.info().name) {
            let body = sent(other, "m", &ChatRequest::new([Message::user("hi"), message.clone()])).unwrap();
            let text = body.to_string();
            let is_clean = ["server_tool_use", "web_search_call", "executableCode", "citations"]
                .iter()
                .all(|own| !text.contains(own));
            assert!(is_clean, "{} of {}: {text}", other.info().name, wire.info().name);
        }
    }
}

/// Each message of OpenAI's responses keeps its phase.
#[test]
fn phases_are_sent_back() {
    let said = |phase: &str, text: &str| {
        let part = json!({ "type": "output_text", "text": text });
        json!({ "type": "message", "role": "assistant", "content": [part], "phase": phase })
    };
    let thought = json!({ "type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "c" });
    let output = json!([thought, said("commentary", "I look. "), said("final_answer", "It is so.")]);
    let whole = read(RESPONSES, &json!({ "status": "completed", "output": output }));

    let request = ChatRequest::new([Message::user("hi")]);
    let mut draft = AnswerDraft::new(&request, RESPONSES.maker("m", RESPONSES.info().url), true);
    for (index, item) in output.as_array().unwrap().iter().enumerate() {
        let mut begun = item.clone();
        begun["content"] = json!([]);
        let event = |kind: &str, more: Value| {
            let mut event = json!({ "type": kind, "output_index": index });
            event.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            event
        };
        let mut events = vec![event("response.output_item.added", json!({ "item": begun }))];
        if let Some(text) = item.pointer("/content/0/text") {
            events.push(event("response.output_text.delta", json!({ "delta": text })));
        }
        events.push(event("response.output_item.done", json!({ "item": item })));
        for event in &events {
            RESPONSES.read_event(&mut draft, event).unwrap();
        }
    }
    let end = json!({ "type": "response.completed", "response": { "status": "completed" } });
    RESPONSES.read_event(&mut draft, &end).unwrap();
    let streamed = draft.into_answer().unwrap().message;

    for message in [whole, streamed] {
        assert_eq!(message.text(), "I look. It is so.");
        let sent =
            |wire: &dyn Dialect| sent(wire, "m", &ChatRequest::new([Message::user("hi"), message.clone()])).unwrap();
        assert_eq!(json!(sent(RESPONSES)["input"].as_array().unwrap()[1..]), output);
        assert!(!sent(OPENAI).to_string().contains("commentary"));
    }
}

/// If the model requests a search next to a call, Anthropic runs the search only after it has the result of the call.
/// The request of the search then follows the call, and the result of the search comes first in the next answer.
#[test]
fn provider_block_behind_a_call_stays_there() {
    let call = json!({ "type": "tool_use", "id": "a", "name": "look", "input": {} });
    let search = json!({ "type": "server_tool_use", "id": "s1", "name": "web_search", "input": { "q": "x" } });
    let found = json!({ "type": "web_search_tool_result", "tool_use_id": "s1", "content": [] });
    let first = json!([{ "type": "text", "text": "Both." }, call, search]);
    let second = json!([found, { "type": "text", "text": "So." }]);
    let asked = read(ANTHROPIC, &json!({ "content": first, "stop_reason": "tool_use" }));
    let result = Message::tool(&asked.tool_calls()[0], "seen");
    let said = read(ANTHROPIC, &json!({ "content": second, "stop_reason": "end_turn" }));
    let body = sent(ANTHROPIC, "m", &ChatRequest::new([Message::user("hi"), asked, result, said])).unwrap();
    assert_eq!((&body["messages"][1]["content"], &body["messages"][3]["content"]), (&first, &second), "{body:#}");

    let call = json!({ "type": "function_call", "call_id": "a", "name": "look", "arguments": "{}" });
    let item = json!({ "type": "web_search_call", "id": "ws_1", "status": "completed" });
    let asked = read(RESPONSES, &json!({ "status": "completed", "output": [call, item] }));
    let body = sent(RESPONSES, "m", &ChatRequest::new([Message::user("hi"), asked])).unwrap();
    assert_eq!(json!(body["input"].as_array().unwrap()[1..3]), json!([call, item]), "{body:#}");
}

/// The input of a block and the sources of a text arrive in pieces.
#[test]
fn streamed_blocks_are_complete() {
    let request = ChatRequest::new([Message::user("hi")]);
    let mut draft = AnswerDraft::new(&request, ANTHROPIC.maker("m", ANTHROPIC.info().url), true);
    let delta = |index: u8, delta: Value| json!({ "type": "content_block_delta", "index": index, "delta": delta });
    let begin =
        |index: u8, block: Value| json!({ "type": "content_block_start", "index": index, "content_block": block });
    let end = |index: u8| json!({ "type": "content_block_stop", "index": index });
    let source = json!({ "type": "char_location", "cited_text": "x" });
    let pieces = [
        begin(0, json!({ "type": "text", "text": "" })),
        delta(0, json!({ "type": "text_delta", "text": "So " })),
        end(0),
        begin(1, json!({ "type": "server_tool_use", "id": "s1", "name": "web_search", "input": {} })),
        delta(1, json!({ "type": "input_json_delta", "partial_json": "{\"q\":" })),
        delta(1, json!({ "type": "input_json_delta", "partial_json": "\"ü\"}" })),
        end(1),
        begin(2, json!({ "type": "text", "text": "", "citations": [] })),
        delta(2, json!({ "type": "citations_delta", "citation": source })),
        delta(2, json!({ "type": "text_delta", "text": "it " })),
        delta(2, json!({ "type": "text_delta", "text": "is." })),
        end(2),
        json!({ "type": "message_delta", "delta": { "stop_reason": "end_turn" } }),
        json!({ "type": "message_stop" }),
    ];
    for piece in &pieces {
        ANTHROPIC.read_event(&mut draft, piece).unwrap();
    }
    let message = draft.into_answer().unwrap().message;
    let body = sent(ANTHROPIC, "m", &ChatRequest::new([Message::user("hi"), message])).unwrap();
    let expected = json!([
        { "type": "text", "text": "So " },
        { "type": "server_tool_use", "id": "s1", "name": "web_search", "input": { "q": "ü" } },
        { "type": "text", "text": "it is.", "citations": [source] },
    ]);
    assert_eq!(body["messages"][1]["content"], expected, "{body:#}");
}
