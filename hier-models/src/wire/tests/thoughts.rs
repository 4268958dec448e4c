//! Thoughts of answers in later requests.

use hier_agents::{ChatRequest, Message, Reasoning, ToolCall};
use serde_json::json;

use super::super::*;
use super::sent;

/// Thoughts go only to the same host, unless the dialect shares them.
#[test]
fn maker_is_dialect_and_host() {
    assert_eq!(ANTHROPIC.maker("m", "https://proxy.example/v1"), "anthropic");
    assert_eq!(OPENAI.maker("m", "https://me:secret@api.deepseek.com:8443/v1?key=k"), "openai@api.deepseek.com:8443");
    assert_eq!(GEMINI.maker("m", GEMINI.info().url), "gemini@generativelanguage.googleapis.com");
}

/// `OpenRouter`'s parts of reasoning arrive in pieces, and are sent back complete, in place of the text.
#[test]
fn reasoning_details_are_merged_and_sent_back() {
    let request = ChatRequest::new([Message::user("hi")]);
    let mut draft = AnswerDraft::new(&request, OPENAI.maker("m", OPENAI.info().url), true);
    let detail =
        |text: &str| json!({ "type": "reasoning.text", "text": text, "index": 0, "format": "x", "signature": null });
    let mut last = detail("");
    last["signature"] = json!("c2ln");
    let encrypted = json!({ "type": "reasoning.encrypted", "data": "c2VjcmV0", "index": 1 });
    for (text, details) in
        [("hm, ", vec![detail("hm, ")]), ("hm", vec![detail("hm")]), ("", vec![last, encrypted.clone()])]
    {
        let delta = json!({ "reasoning": text, "reasoning_details": details });
        OPENAI.read_event(&mut draft, &recorded::openai_delta(&delta, None)).unwrap();
    }
    let call = json!({ "tool_calls": [{ "index": 0, "id": "a", "function": { "name": "look", "arguments": "{}" } }] });
    OPENAI.read_event(&mut draft, &recorded::openai_delta(&call, Some("tool_calls"))).unwrap();
    let answer = draft.into_answer().unwrap().message;
    let body = sent(OPENAI, "m", &ChatRequest::new([Message::user("hi"), answer.clone()])).unwrap();
    let whole = json!([
        { "type": "reasoning.text", "text": "hm, hm", "index": 0, "format": "x", "signature": "c2ln" }, encrypted,
    ]);
    assert_eq!(body["messages"][1]["reasoning_details"], whole, "{body:#}");
    assert!(body["messages"][1].get("reasoning").is_none());
    assert_eq!(answer.reasoning()[0].text, "hm, hm");
}

/// Thoughts between two texts are sent back in their order. If the text was changed since, the thoughts come first.
#[test]
fn thoughts_between_texts_keep_their_position() {
    let anthropic = json!({
        "stop_reason": "end_turn",
        "content": [
            { "type": "thinking", "thinking": "1", "signature": "a" }, { "type": "text", "text": "grüß" },
            { "type": "thinking", "thinking": "2", "signature": "b" }, { "type": "text", "text": "dich" },
        ],
    });
    let item = |id: &str| json!({ "type": "reasoning", "id": id, "summary": [], "encrypted_content": "c" });
    let said = |text: &str| json!({ "type": "message", "role": "assistant", "content": [{ "type": "output_text", "text": text }] });
    let responses = json!({ "status": "completed", "output": [item("1"), said("grüß"), item("2"), said("dich")] });
    for (wire, whole, field, path) in
        [(ANTHROPIC, anthropic, "content", "/messages/1/content"), (RESPONSES, responses, "output", "/input")]
    {
        let request = ChatRequest::new([Message::user("hi")]);
        let mut draft = AnswerDraft::new(&request, wire.maker("m", wire.info().url), false);
        wire.read_answer(&mut draft, &whole).unwrap();
        let message = draft.into_answer().unwrap().message;
        assert_eq!(message.text(), "grüßdich");
        let back = sent(wire, "m", &ChatRequest::new([Message::user("hi"), message.clone()])).unwrap();
        let list = back.pointer(path).unwrap().as_array().unwrap();
        assert_eq!(list[list.len() - 4..], whole[field].as_array().unwrap()[..], "{back:#}");
        let changed = Message::assistant("ü").with_reasoning(message.reasoning().to_vec());
        let back = sent(wire, "m", &ChatRequest::new([Message::user("hi"), changed])).unwrap();
        let kinds: Vec<_> =
            back.pointer(path).unwrap().as_array().unwrap().iter().map(|it| it["type"].clone()).collect();
        assert!(
            kinds.ends_with(&[
                whole[field][0]["type"].clone(),
                whole[field][0]["type"].clone(),
                whole[field][1]["type"].clone()
            ]),
            "{back:#}"
        );
    }
}

/// The text of thoughts is sent back only in its own turn, and only with calls.
#[test]
fn thought_text_is_sent_back_within_its_turn() {
    for (wire, field) in [(OPENAI, "reasoning_content"), (OPENAI, "reasoning"), (OLLAMA, "thinking")] {
        within_its_turn(wire, field);
    }
}

fn within_its_turn(wire: &dyn Dialect, field: &str) {
    let thought = Reasoning::new(wire.maker("m", wire.info().url), "hm").with_data(json!({ "field": field }));
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
