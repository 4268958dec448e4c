//! Streams, cut into bytes in every way, in all dialects.

use futures_util::{FutureExt, stream};
use hier_core::agent::{ChatChunk, ChatRequest, ChatResponse, FinishReason};
use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::wire::{ANTHROPIC, OLLAMA, OPENAI};

/// What comes of a stream whose bytes come in these pieces, and then end in order.
fn read(wire: &'static dyn Wire, pieces: &[&[u8]]) -> Result<ChatResponse, Failure> {
    let bytes: Vec<_> = pieces.iter().map(|piece| Ok(Bytes::copy_from_slice(piece))).collect();
    let values = cut(wire.framing(), stream::iter(bytes));
    let mut pieces = Pieces { wire, request: ChatRequest::default(), values, draft: Draft::default(), ended: false };
    let mut text = String::new();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    runtime.block_on(async {
        loop {
            match pieces.next().await.expect("a stream ends with an answer or an error") {
                Ok(ChatChunk::Text(piece)) => text += &piece,
                Ok(ChatChunk::Done(answer)) => {
                    assert_eq!(text, answer.text(), "the pieces are the text of the answer");
                    assert!(pieces.next().now_or_never().is_some_and(|next| next.is_none()), "nothing comes after it");
                    return Ok(answer);
                }
                Ok(other) => panic!("{other:?}"),
                Err(failure) => return Err(failure),
            }
        }
    })
}

fn events(values: &[Value]) -> String {
    let event = |value: &Value| {
        let kind =
            value.get("type").and_then(Value::as_str).map_or_else(String::new, |kind| format!("event: {kind}\n"));
        format!("{kind}data: {value}\n\n")
    };
    values.iter().map(event).collect()
}

fn openai_delta(delta: &Value, finish: Option<&str>) -> Value {
    json!({ "model": "m", "choices": [{ "index": 0, "delta": delta, "finish_reason": finish }] })
}

fn openai_calls(calls: &[Value], finish: &str) -> String {
    let deltas = calls.iter().map(|call| openai_delta(&json!({ "tool_calls": [call] }), None));
    let all: Vec<_> = deltas.chain([openai_delta(&json!({}), Some(finish))]).collect();
    events(&all) + "data: [DONE]\n\n"
}

/// The same answer in each dialect: text of several bytes a letter, and two calls.
fn recorded() -> [(&'static dyn Wire, String); 3] {
    let call = |index: u8, id: &str, name: &str, args: &str| json!({ "index": index, "id": id, "function": { "name": name, "arguments": args } });
    let openai = events(&[
        openai_delta(&json!({ "role": "assistant", "content": "grüß" }), None),
        openai_delta(&json!({ "content": "€🎉" }), None),
        openai_delta(&json!({ "tool_calls": [call(0, "a", "pay", "{\"e\"")] }), None),
        openai_delta(&json!({ "tool_calls": [{ "index": 0, "function": { "arguments": ":1}" } }] }), None),
        openai_delta(&json!({ "tool_calls": [call(1, "b", "look", "")] }), None),
        openai_delta(&json!({}), Some("tool_calls")),
        json!({ "model": "m", "choices": [], "usage": { "prompt_tokens": 7, "completion_tokens": 5 } }),
    ]) + "data: [DONE]\n\n";
    let start = json!({ "type": "message_start", "message": { "model": "m", "usage": { "input_tokens": 7, "output_tokens": 1 } } });
    let block =
        |index: u8, block: Value| json!({ "type": "content_block_start", "index": index, "content_block": block });
    let delta = |index: u8, delta: Value| json!({ "type": "content_block_delta", "index": index, "delta": delta });
    let anthropic = events(&[
        start,
        block(0, json!({ "type": "text", "text": "" })),
        delta(0, json!({ "type": "text_delta", "text": "grüß" })),
        json!({ "type": "ping" }),
        delta(0, json!({ "type": "text_delta", "text": "€🎉" })),
        json!({ "type": "content_block_stop", "index": 0 }),
        block(1, json!({ "type": "tool_use", "id": "a", "name": "pay", "input": {} })),
        delta(1, json!({ "type": "input_json_delta", "partial_json": "{\"e\"" })),
        delta(1, json!({ "type": "input_json_delta", "partial_json": ":1}" })),
        block(2, json!({ "type": "tool_use", "id": "b", "name": "look", "input": {} })),
        json!({ "type": "message_delta", "delta": { "stop_reason": "tool_use" }, "usage": { "output_tokens": 5 } }),
        json!({ "type": "message_stop" }),
    ]);
    let line = |message: Value| format!("{}\n", json!({ "model": "m", "message": message, "done": false }));
    let made = json!([{ "id": "a", "function": { "name": "pay", "arguments": { "e": 1 } } }, { "id": "b", "function": { "name": "look", "arguments": {} } }]);
    let last = json!({ "model": "m", "message": {}, "done": true, "done_reason": "tool_calls", "prompt_eval_count": 7, "eval_count": 5 });
    let ollama = line(json!({ "content": "grüß" }))
        + &line(json!({ "content": "€🎉" }))
        + &line(json!({ "content": "", "tool_calls": made }))
        + &format!("{last}\n");
    [(OPENAI, openai), (ANTHROPIC, anthropic), (OLLAMA, ollama)]
}

fn check(answer: &ChatResponse) {
    assert_eq!(answer.text(), "grüß€🎉");
    let calls: Vec<_> =
        answer.message.tool_calls().iter().map(|call| (&*call.id, &*call.name, call.args.clone())).collect();
    assert_eq!(calls, [("a", "pay", json!({ "e": 1 })), ("b", "look", json!({}))]);
    let usage = answer.message.usage().expect("a cost");
    assert_eq!((usage.input_tokens, usage.output_tokens), (7, 5));
    assert_eq!((answer.model.as_deref(), &answer.finish), (Some("m"), &Some(FinishReason::ToolCalls)));
}

#[test]
fn a_stream_is_the_same_answer_wherever_it_is_cut() {
    for (wire, text) in recorded() {
        for text in [text.clone(), text.replace('\n', "\r\n")] {
            let bytes = text.as_bytes();
            check(&read(wire, &[bytes]).unwrap());
            for cut in 0..=bytes.len() {
                check(&read(wire, &[&bytes[..cut], &bytes[cut..]]).unwrap());
            }
            let single: Vec<&[u8]> = bytes.chunks(1).collect();
            check(&read(wire, &single).unwrap());
        }
    }
}

#[test]
fn a_stream_that_ends_early_is_an_error_or_whole() {
    for (wire, text) in recorded() {
        for end in 0..text.len() {
            match read(wire, &[&text.as_bytes()[..end]]) {
                Err(failure) => {
                    assert_eq!(failure.kind, crate::error::Kind::Unavailable, "{}: {failure:?}", wire.name());
                }
                // Why it ends was said: only what comes behind that is missing.
                Ok(answer) => assert_eq!(answer.message.tool_calls().len(), 2, "{}", wire.name()),
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    /// Whatever bytes come, in whatever pieces: the stream ends, as the same bytes in one piece do.
    #[test]
    fn any_bytes_end_as_they_do_at_once(
        which in 0_usize..3,
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4),
        order in any::<prop::sample::Index>(),
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..6),
    ) {
        let (wire, text) = recorded()[which].clone();
        // Two neighbouring events change places.
        let separator = if wire.framing() == Framing::Events { "\n\n" } else { "\n" };
        let mut parts: Vec<&str> = text.split_inclusive(separator).collect();
        let place = order.index(parts.len() - 1);
        parts.swap(place, place + 1);
        let mut bytes = parts.concat().into_bytes();
        for (place, byte) in &changes {
            let place = place.index(bytes.len());
            bytes[place] = *byte;
        }
        let mut places: Vec<usize> = cuts.iter().map(|cut| cut.index(bytes.len() + 1)).chain([0, bytes.len()]).collect();
        places.sort_unstable();
        let pieces: Vec<&[u8]> = places.windows(2).map(|two| &bytes[two[0]..two[1]]).collect();
        let (at_once, in_pieces) = (read(wire, &[&bytes]), read(wire, &pieces));
        match (at_once, in_pieces) {
            (Ok(a), Ok(b)) => {
                prop_assert_eq!(a.text(), b.text());
                let calls = |answer: &ChatResponse| -> Vec<(String, Value)> {
                    answer.message.tool_calls().iter().map(|call| (call.name.clone(), call.args.clone())).collect()
                };
                prop_assert_eq!(calls(&a), calls(&b));
                prop_assert_eq!((a.finish, a.message.usage()), (b.finish, b.message.usage()));
            }
            (Err(a), Err(b)) => prop_assert_eq!((a.kind, a.reason), (b.kind, b.reason)),
            (a, b) => prop_assert!(false, "{a:?} at once, {b:?} in pieces"),
        }
    }
}

/// What is sent, its pieces, and the calls that they are.
type Case<'a> = (&'a str, Vec<Value>, Vec<(&'a str, Value)>);

/// What servers send, and the calls that it is: by number and id, else by id, else as the last one.
#[test]
fn pieces_of_calls_find_their_call() {
    let piece = |index: Option<u32>, id: &str, name: &str, args: &str| {
        let mut call = json!({ "function": { "name": name, "arguments": args } });
        if let Some(index) = index {
            call["index"] = json!(index);
        }
        if !id.is_empty() {
            call["id"] = json!(id);
        }
        call
    };
    let cases: Vec<Case<'_>> = vec![
        (
            "no number",
            vec![piece(None, "a", "pay", "{\"eur\":"), piece(None, "", "", "5}")],
            vec![("pay", json!({ "eur": 5 }))],
        ),
        (
            "number 1 only",
            vec![piece(Some(1), "a", "pay", "{\"eur\":"), piece(Some(1), "", "", "5}")],
            vec![("pay", json!({ "eur": 5 }))],
        ),
        ("number 1 only, whole", vec![piece(Some(1), "a", "pay", "{\"eur\":5}")], vec![("pay", json!({ "eur": 5 }))]),
        (
            "number 1 first",
            vec![piece(Some(1), "b", "look", "{}"), piece(Some(0), "a", "pay", "{\"eur\":5}")],
            vec![("pay", json!({ "eur": 5 })), ("look", json!({}))],
        ),
        (
            "one number for two ids",
            vec![piece(Some(0), "a", "pay", "{\"eur\":5}"), piece(Some(0), "b", "look", "{}")],
            vec![("pay", json!({ "eur": 5 })), ("look", json!({}))],
        ),
        (
            "id and name each time",
            vec![piece(Some(0), "a", "pay", "{\"eur\":"), piece(Some(0), "a", "pay", "5}")],
            vec![("pay", json!({ "eur": 5 }))],
        ),
        (
            "two names and nothing else",
            vec![piece(None, "", "pay", "{}"), piece(None, "", "look", "{}")],
            vec![("pay", json!({})), ("look", json!({}))],
        ),
        ("a number beyond all bounds", vec![piece(Some(u32::MAX), "a", "pay", "{}")], vec![("pay", json!({}))]),
        ("no arguments", vec![piece(Some(0), "a", "pay", "")], vec![("pay", json!({}))]),
    ];
    for (what, calls, expected) in cases {
        let answer = read(OPENAI, &[openai_calls(&calls, "tool_calls").as_bytes()]).unwrap();
        let made: Vec<_> = answer.message.tool_calls().iter().map(|call| (&*call.name, call.args.clone())).collect();
        assert_eq!(made, expected, "{what}");
    }
}

#[test]
fn a_call_that_was_cut_off_cannot_be_made() {
    for args in ["", "{\"eur\":", "{\"eur\":5}"] {
        let call = json!({ "index": 0, "id": "a", "function": { "name": "pay", "arguments": args } });
        let answer = read(OPENAI, &[openai_calls(&[call], "length").as_bytes()]).unwrap();
        let call = &answer.message.tool_calls()[0];
        assert!(call.args.as_str().is_some_and(|args| args.starts_with("cut off")), "{call:?}");
        assert_eq!(answer.finish, Some(FinishReason::Length));
    }
}

#[test]
fn what_a_server_says_is_wrong_is_told() {
    let cases: [(&dyn Wire, String, &str); 4] = [
        (OPENAI, events(&[json!({ "error": { "message": "no credits" } })]), "no credits"),
        (OPENAI, "data: [DONE]\n\n".to_owned(), "neither text nor a call"),
        (
            ANTHROPIC,
            events(&[json!({ "type": "error", "error": { "type": "overloaded_error", "message": "busy" } })]),
            "busy",
        ),
        (OLLAMA, "{\"error\":\"out of memory\"}\n".to_owned(), "out of memory"),
    ];
    for (wire, text, told) in cases {
        let wire = crate::wire::ALL.into_iter().find(|known| known.name() == wire.name()).unwrap();
        let failure = read(wire, &[text.as_bytes()]).unwrap_err();
        assert!(failure.reason.contains(told), "{failure:?}");
    }
}

#[test]
fn an_end_that_was_said_needs_no_mark() {
    let text = events(&[openai_delta(&json!({ "content": "hi" }), Some("stop"))]);
    assert_eq!(read(OPENAI, &[text.as_bytes()]).unwrap().text(), "hi");
    let text = events(&[openai_delta(&json!({ "content": "hi" }), None)]) + "data: [DONE]\n\n";
    assert_eq!(read(OPENAI, &[text.as_bytes()]).unwrap().text(), "hi");
}
