//! Unusual streams of real providers.

use super::*;

/// A stream, the text and finish reason of its answer, and its calls.
type Odd = (&'static str, &'static dyn Dialect, String, (&'static str, FinishReason), Vec<(&'static str, Value)>);

fn text_delta(content: &Value, finish: Option<&str>) -> Value {
    openai_delta(content, finish)
}

fn anthropic(blocks: &[Value], reason: &str) -> String {
    let end = json!({ "type": "message_delta", "delta": { "stop_reason": reason }, "usage": { "output_tokens": 9 } });
    let usage = json!({ "input_tokens": 5, "output_tokens": 1 });
    let start = json!({ "type": "message_start", "message": { "model": "m", "usage": usage } });
    let ends = [end, json!({ "type": "message_stop" })];
    events(&[start].into_iter().chain(blocks.iter().cloned()).chain(ends).collect::<Vec<_>>())
}

fn block(block: &Value) -> Value {
    json!({ "type": "content_block_start", "index": 0, "content_block": block })
}

fn gemini(parts: &Value, finish: Option<&str>) -> Value {
    let mut candidate = json!({ "content": { "role": "model", "parts": parts } });
    if let Some(finish) = finish {
        candidate["finishReason"] = json!(finish);
    }
    json!({ "candidates": [candidate], "usageMetadata": { "promptTokenCount": 5 } })
}

fn responses(before: &[Value], status: &str, reason: Option<&str>) -> String {
    let details = reason.map(|reason| json!({ "reason": reason }));
    let usage = json!({ "input_tokens": 5, "output_tokens": 9 });
    let response = json!({ "model": "m", "status": status, "incomplete_details": details, "usage": usage });
    let end = json!({ "type": format!("response.{status}"), "response": response });
    events(&before.iter().cloned().chain([end]).collect::<Vec<_>>())
}

fn delta(kind: &str, text: &str) -> Value {
    json!({ "type": format!("response.{kind}.delta"), "output_index": 0, "delta": text })
}

fn done(values: &[Value]) -> String {
    events(values) + "data: [DONE]\n\n"
}

/// The finish reason arrives before the end.
fn early() -> Vec<Odd> {
    let text = |text: &str| json!({ "content": text });
    let part = |text: &str| json!([{ "text": text }]);
    let call = json!([{ "functionCall": { "name": "look", "args": {} } }]);
    vec![
        (
            "a reason in the middle",
            OPENAI,
            done(&[
                text_delta(&text("one "), Some("stop")),
                text_delta(&text("two"), None),
                text_delta(&json!({}), Some("stop")),
            ]),
            ("one two", FinishReason::Stop),
            vec![],
        ),
        (
            "a reason with each part",
            GEMINI,
            events(&[gemini(&part("one "), Some("STOP")), gemini(&part("two"), Some("STOP"))]),
            ("one two", FinishReason::Stop),
            vec![],
        ),
        (
            "a call after a reason",
            GEMINI,
            events(&[gemini(&part("I look."), Some("STOP")), gemini(&call, Some("STOP"))]),
            ("I look.", FinishReason::ToolCalls),
            vec![("look", json!({}))],
        ),
        (
            "null as text is not a reason",
            OPENAI,
            done(&[text_delta(&text("hi"), Some("null")), text_delta(&json!({}), Some("stop"))]),
            ("hi", FinishReason::Stop),
            vec![],
        ),
    ]
}

/// The model or the provider refuses, possibly in the middle.
fn refused() -> Vec<Odd> {
    let filtered = || FinishReason::ContentFilter;
    let text = block(&json!({ "type": "text", "text": "I was about" }));
    let call = block(&json!({ "type": "tool_use", "id": "a", "name": "pay", "input": { "eur": 5 } }));
    let cut = json!("cut off by the provider's filter: {\"eur\":5}");
    let he = text_delta(&json!({ "content": "He" }), None);
    let refusal = |text: &str, end| text_delta(&json!({ "refusal": text }), end);
    let part = || gemini(&json!([{ "text": "He" }]), None);
    vec![
        ("after a text", ANTHROPIC, anthropic(&[text], "refusal"), ("I was about", filtered()), vec![]),
        ("before a text", ANTHROPIC, anthropic(&[], "refusal"), ("", filtered()), vec![]),
        ("after a call", ANTHROPIC, anthropic(&[call], "refusal"), ("", filtered()), vec![("pay", cut)]),
        (
            "a filter after a text",
            OPENAI,
            done(&[he.clone(), text_delta(&json!({}), Some("content_filter"))]),
            ("He", filtered()),
            vec![],
        ),
        (
            "in words of its own",
            OPENAI,
            done(&[he.clone(), refusal("I cannot", None), refusal(" help.", Some("stop"))]),
            ("HeI cannot help.", filtered()),
            vec![],
        ),
        (
            "another provider's word",
            OPENAI,
            done(&[he, text_delta(&json!({}), Some("sensitive"))]),
            ("He", filtered()),
            vec![],
        ),
        (
            "in words of its own",
            RESPONSES,
            responses(&[delta("refusal", "I cannot.")], "completed", None),
            ("I cannot.", filtered()),
            vec![],
        ),
        (
            "a filter after a text",
            RESPONSES,
            responses(&[delta("output_text", "He")], "incomplete", Some("content_filter")),
            ("He", filtered()),
            vec![],
        ),
        (
            "a filter after a text",
            GEMINI,
            events(&[part(), gemini(&json!([]), Some("PROHIBITED_CONTENT"))]),
            ("He", filtered()),
            vec![],
        ),
        (
            "a filter of the platform after a text",
            GEMINI,
            events(&[part(), gemini(&json!([]), Some("MODEL_ARMOR"))]),
            ("He", filtered()),
            vec![],
        ),
        (
            "a block after a text",
            GEMINI,
            events(&[part(), json!({ "promptFeedback": { "blockReason": "SAFETY" } })]),
            ("He", filtered()),
            vec![],
        ),
    ]
}

/// The model used up its tokens with thoughts.
fn used_up() -> Vec<Odd> {
    let length = || FinishReason::Length;
    let usage = json!({ "choices": [], "usage": { "prompt_tokens": 5, "completion_tokens": 9 } });
    let thought = text_delta(&json!({ "reasoning_content": "hm" }), None);
    let end = text_delta(&json!({}), Some("length"));
    let tag = text_delta(&json!({ "content": "<think>hm" }), None);
    let thinking = block(&json!({ "type": "thinking", "thinking": "hm" }));
    let line = json!({
        "message": { "thinking": "hm" }, "done": true, "done_reason": "length", "prompt_eval_count": 5, "eval_count": 9,
    });
    vec![
        ("thoughts only", OPENAI, done(&[thought, end.clone(), usage.clone()]), ("", length()), vec![]),
        ("an open tag", OPENAI, done(&[tag, end, usage]), ("", length()), vec![]),
        ("thoughts only", ANTHROPIC, anthropic(&[thinking], "max_tokens"), ("", length()), vec![]),
        ("nothing", GEMINI, events(&[gemini(&json!([]), Some("MAX_TOKENS"))]), ("", length()), vec![]),
        ("nothing", RESPONSES, responses(&[], "incomplete", Some("max_output_tokens")), ("", length()), vec![]),
        ("thoughts only", OLLAMA, format!("{line}\n"), ("", length()), vec![]),
    ]
}

fn tagged() -> Vec<Odd> {
    let line = |text: &str, done: bool| format!("{}\n", json!({ "message": { "content": text }, "done": done }));
    let text = |text: &str, end| text_delta(&json!({ "content": text }), end);
    vec![
        (
            "tags",
            OPENAI,
            done(&[text("<thi", None), text("nk>secret</think>\n\nThe ", None), text("<think> tag", Some("stop"))]),
            ("The <think> tag", FinishReason::Stop),
            vec![],
        ),
        (
            "tags",
            OLLAMA,
            line("<think>secret", false) + &line("</think>yes", true),
            ("yes", FinishReason::Stop),
            vec![],
        ),
    ]
}

#[test]
fn unusual_streams_are_understood() {
    let all = early().into_iter().chain(refused()).chain(used_up()).chain(tagged());
    for (what, wire, text, (expected, finish), calls) in all {
        let what = format!("{what}, {}", wire.info().name);
        for pieces in [vec![text.as_bytes()], text.as_bytes().chunks(1).collect::<Vec<_>>()] {
            let answer = read(wire, &pieces).unwrap_or_else(|failure| panic!("{what}: {failure:?}"));
            assert_eq!((&*answer.text(), answer.finish.clone()), (expected, Some(finish.clone())), "{what}");
            let made = answer.message.tool_calls().iter().map(|call| (&*call.name, call.args.clone()));
            assert_eq!(made.collect::<Vec<_>>(), calls, "{what}");
            if finish == FinishReason::Length {
                let usage = answer.message.usage().unwrap_or_else(|| panic!("{what}: no cost"));
                assert_eq!(usage.input_tokens, 5, "{what}");
            }
        }
    }
}

/// An unreadable answer is requested again, with the provider's comment. An answer that the provider aborted is a
/// temporary failure.
#[test]
fn unreadable_answers_are_requested_again() {
    use crate::error::FailureKind;
    let malformed = |parts: &Value, finish: &str| {
        let mut piece = gemini(parts, Some(finish));
        piece["candidates"][0]["finishMessage"] = json!("print(weather())");
        events(&[piece])
    };
    let (nothing, text) = (json!([]), json!([{ "text": "I look." }]));
    let broken = |reason| done(&[text_delta(&json!({ "content": "par" }), Some(reason))]);
    let cases: [(&'static dyn Dialect, String, FailureKind, bool); 7] = [
        (GEMINI, malformed(&nothing, "MALFORMED_FUNCTION_CALL"), FailureKind::Unusable, true),
        (GEMINI, malformed(&text, "MALFORMED_FUNCTION_CALL"), FailureKind::Unusable, true),
        (GEMINI, malformed(&nothing, "UNEXPECTED_TOOL_CALL"), FailureKind::Unusable, true),
        (GEMINI, malformed(&nothing, "OTHER"), FailureKind::Unusable, false),
        (OPENAI, done(&[text_delta(&json!({}), Some("tool_calls"))]), FailureKind::Unusable, false),
        (OPENAI, broken("error"), FailureKind::Unavailable, false),
        (OPENAI, broken("network_error"), FailureKind::Unavailable, false),
    ];
    for (wire, text, kind, has_hint) in cases {
        let failure = read(wire, &[text.as_bytes()]).unwrap_err();
        assert_eq!((failure.kind, failure.hint.is_some()), (kind, has_hint), "{failure:?}");
        assert!(failure.may_pass() && (!has_hint || failure.reason.contains("print(weather())")), "{failure:?}");
    }
    let answer = read(GEMINI, &[malformed(&text, "OTHER").as_bytes()]).unwrap();
    assert_eq!(answer.finish, Some(FinishReason::Other("OTHER".to_owned())));
}

/// Proxies leave out a type that equals the name of the event.
#[test]
fn event_name_replaces_missing_type() {
    for recorded in recorded_answers().into_iter().filter(|recorded| recorded.stream.contains("event: ")) {
        let without = |event: &str| {
            let Some((name, data)) = event.split_once("\ndata: ") else { return event.to_owned() };
            let mut data: Value = serde_json::from_str(data.trim()).unwrap();
            data.as_object_mut().unwrap().remove("type");
            format!("{name}\ndata: {data}\n\n")
        };
        let stream: String = recorded.stream.split_inclusive("\n\n").map(without).collect();
        assert!(stream != recorded.stream);
        check(&recorded, &read(recorded.wire, &[stream.as_bytes()]).unwrap());
    }
}
