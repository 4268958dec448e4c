//! What is thought, and what of it goes back.

use hier_core::agent::{ChatRequest, Message, Reasoning, ToolCall};
use serde_json::json;

use super::super::*;
use super::sent;

/// What is made of a host's thoughts elsewhere: nothing, unless the dialect is one maker.
#[test]
fn makers_are_dialects_and_hosts() {
    assert_eq!(maker(ANTHROPIC, "https://proxy.example/v1"), "anthropic");
    assert_eq!(maker(OPENAI, "https://me:secret@api.deepseek.com:8443/v1?key=k"), "openai@api.deepseek.com:8443");
    assert_eq!(maker(GEMINI, GEMINI.url()), "gemini@generativelanguage.googleapis.com");
}

/// `OpenRouter`'s parts of reasoning, which come in pieces, go back whole in place of the text.
#[test]
fn parts_of_reasoning_are_gathered_and_go_back() {
    let request = ChatRequest::new([Message::user("hi")]);
    let mut draft = Draft::new(&request, maker(OPENAI, OPENAI.url()), true);
    let detail =
        |text: &str| json!({ "type": "reasoning.text", "text": text, "index": 0, "format": "x", "signature": null });
    let mut last = detail("");
    last["signature"] = json!("c2ln");
    let encrypted = json!({ "type": "reasoning.encrypted", "data": "c2VjcmV0", "index": 1 });
    for (text, details) in
        [("hm, ", vec![detail("hm, ")]), ("hm", vec![detail("hm")]), ("", vec![last, encrypted.clone()])]
    {
        let delta = json!({ "reasoning": text, "reasoning_details": details });
        OPENAI.piece(&mut draft, &recorded::openai_delta(&delta, None)).unwrap();
    }
    let call = json!({ "tool_calls": [{ "index": 0, "id": "a", "function": { "name": "look", "arguments": "{}" } }] });
    OPENAI.piece(&mut draft, &recorded::openai_delta(&call, Some("tool_calls"))).unwrap();
    let answer = draft.answer(&request).unwrap().message;
    let body = sent(OPENAI, "m", &ChatRequest::new([Message::user("hi"), answer.clone()])).unwrap();
    let whole = json!([
        { "type": "reasoning.text", "text": "hm, hm", "index": 0, "format": "x", "signature": "c2ln" }, encrypted,
    ]);
    assert_eq!(body["messages"][1]["reasoning_details"], whole, "{body:#}");
    assert!(body["messages"][1].get("reasoning").is_none());
    assert_eq!(answer.reasoning()[0].text, "hm, hm");
}

/// What is thought is text of its own turn: later it is not sent, nor where nothing was called.
#[test]
fn text_of_thoughts_goes_back_within_its_turn() {
    for (wire, field) in [(OPENAI, "reasoning_content"), (OPENAI, "reasoning"), (OLLAMA, "thinking")] {
        within_its_turn(wire, field);
    }
}

fn within_its_turn(wire: &dyn Wire, field: &str) {
    let thought = Reasoning::new(maker(wire, wire.url()), "hm").with_data(json!({ "field": field }));
    let call = ToolCall { name: "look".to_owned(), args: json!({}), id: "a".to_owned() };
    let called = Message::calls("", [call.clone()]).with_reasoning([thought.clone().of_call("a")]);
    let turn = [Message::user("hi"), called, Message::tool(&call, "seen")];
    let body = sent(wire, "m", &ChatRequest::new(turn.clone())).unwrap();
    assert_eq!(body["messages"][1][field], "hm");
    let said = Message::assistant("done").with_reasoning([thought]);
    let later: Vec<Message> = turn.into_iter().chain([said, Message::user("and?")]).collect();
    let body = sent(wire, "m", &ChatRequest::new(later)).unwrap();
    assert!(!body.to_string().contains("hm"), "{body:#}");
}
