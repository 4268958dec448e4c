//! Frames of Bedrock's streams: whole, in pieces, damaged, and cut off.

use aws_smithy_eventstream::frame::write_message_to;
use aws_smithy_types::event_stream::{Header, HeaderValue, Message as Frame};

use super::*;
use crate::error::FailureKind;
use crate::wire::BEDROCK;

fn frame(headers: &[(&'static str, &str)], payload: &str) -> Vec<u8> {
    let headers =
        headers.iter().map(|(name, value)| Header::new(*name, HeaderValue::String((*value).to_owned().into())));
    let mut bytes = Vec::new();
    write_message_to(&Frame::new_from_parts(headers.collect(), payload.to_owned()), &mut bytes).unwrap();
    bytes
}

fn event(name: &str, event: &Value) -> Vec<u8> {
    let headers = [(":event-type", name), (":content-type", "application/json"), (":message-type", "event")];
    frame(&headers, &event.to_string())
}

fn exception(name: &str, payload: &str) -> Vec<u8> {
    frame(&[(":exception-type", name), (":content-type", "application/json"), (":message-type", "exception")], payload)
}

fn delta(index: u8, delta: &Value) -> Vec<u8> {
    event("contentBlockDelta", &json!({ "contentBlockIndex": index, "delta": delta, "p": "abcdefgh" }))
}

fn stop(index: u8) -> Vec<u8> {
    event("contentBlockStop", &json!({ "contentBlockIndex": index }))
}

fn start_call(index: u8, id: &str, name: &str) -> Vec<u8> {
    let start = json!({ "toolUse": { "toolUseId": id, "name": name } });
    event("contentBlockStart", &json!({ "contentBlockIndex": index, "start": start }))
}

fn thought(text: &str) -> Value {
    json!({ "reasoningContent": { "text": text } })
}

fn usage() -> Value {
    json!({
        "usage": { "inputTokens": 3, "outputTokens": 5, "totalTokens": 12, "cacheReadInputTokens": 3, "cacheWriteInputTokens": 1 },
        "metrics": { "latencyMs": 9 },
        "trace": { "promptRouter": { "invokedModelId": "m" } },
    })
}

/// An answer with thoughts, multi-byte text and two calls, as the frames of a stream.
fn frames() -> Vec<Vec<u8>> {
    let input = |text: &str| json!({ "toolUse": { "input": text } });
    vec![
        event("messageStart", &json!({ "role": "assistant" })),
        delta(0, &thought("hm, ")),
        delta(0, &thought("hm")),
        delta(0, &json!({ "reasoningContent": { "signature": "c2ln" } })),
        stop(0),
        delta(1, &json!({ "text": "grüß" })),
        delta(1, &json!({ "text": "€🎉" })),
        stop(1),
        delta(2, &json!({ "reasoningContent": { "redactedContent": "c2VjcmV0" } })),
        stop(2),
        start_call(3, "a", "pay"),
        delta(3, &input("{\"e\"")),
        delta(3, &input(":1}")),
        stop(3),
        start_call(4, "b", "look"),
        stop(4),
        event("messageStop", &json!({ "stopReason": "tool_use" })),
        event("metadata", &usage()),
    ]
}

/// Returns the same answer in one piece.
fn recorded() -> RecordedAnswer {
    let content = json!([
        { "reasoningContent": { "reasoningText": { "text": "hm, hm", "signature": "c2ln" } } },
        { "text": "grüß€🎉" },
        { "reasoningContent": { "redactedContent": "c2VjcmV0" } },
        { "toolUse": { "toolUseId": "a", "name": "pay", "input": { "e": 1 } } },
        { "toolUse": { "toolUseId": "b", "name": "look", "input": {} } },
    ]);
    let mut whole = usage();
    whole["output"] = json!({ "message": { "role": "assistant", "content": content } });
    whole["stopReason"] = json!("tool_use");
    let thoughts =
        vec![("hm, hm", None, json!({ "signature": "c2ln" })), ("", Some("a"), json!({ "redacted": "secret" }))];
    RecordedAnswer { wire: BEDROCK, stream: String::new(), whole, thoughts }
}

#[test]
fn frames_equal_the_complete_answer() {
    let answer = at_once(&recorded());
    check(&recorded(), &answer);
    assert_eq!(answer.message.usage().unwrap().cache_write_tokens, 1);
    let streamed = read(BEDROCK, &[&frames().concat()]).unwrap();
    assert_eq!((streamed.message.body, streamed.finish), (answer.message.body, answer.finish));
}

#[test]
fn frames_may_arrive_in_any_pieces() {
    let bytes = frames().concat();
    for cut in 0..=bytes.len() {
        check(&recorded(), &read(BEDROCK, &[&bytes[..cut], &bytes[cut..]]).unwrap());
    }
    let single: Vec<&[u8]> = bytes.chunks(1).collect();
    check(&recorded(), &read(BEDROCK, &single).unwrap());
}

/// A stream that ends early is repeated, unless the answer is complete and only its usage is missing.
#[test]
fn early_end_is_temporary() {
    let (frames, bytes) = (frames(), frames().concat());
    let complete: usize = frames[..frames.len() - 1].iter().map(Vec::len).sum();
    for end in 0..bytes.len() {
        match read(BEDROCK, &[&bytes[..end]]) {
            Ok(answer) => {
                assert!(end >= complete, "{end} of {complete}");
                assert_eq!((answer.message.tool_calls().len(), answer.message.usage()), (2, None));
            }
            Err(failure) => {
                assert!(end < complete, "{end} of {complete}");
                assert_eq!(
                    (failure.kind, &*failure.reason),
                    (FailureKind::Unavailable, "the stream ended before the reply was complete")
                );
            }
        }
    }
}

/// Each byte has a checksum, so no damaged byte becomes a part of an answer.
#[test]
fn damaged_frames_are_temporary_failures() {
    let (first, text) = (event("messageStart", &json!({ "role": "assistant" })), delta(0, &json!({ "text": "hi" })));
    let end = event("messageStop", &json!({ "stopReason": "end_turn" }));
    for place in 0..text.len() {
        let mut damaged = text.clone();
        damaged[place] ^= 0x41;
        let failure = read(BEDROCK, &[&first, &damaged, &end]).unwrap_err();
        assert_eq!(failure.kind, FailureKind::Unavailable, "{place}: {failure:?}");
        // A wrong length may hide the end of the stream, instead.
        let is_told = failure.reason.starts_with("the event stream is damaged: ");
        assert!(is_told || place < 4, "{place}: {failure:?}");
    }
    let failure = read(BEDROCK, &[&[0xff; 40]]).unwrap_err();
    assert_eq!(failure.reason, "the event stream is damaged: a frame of 4294967295 bytes");
    let failure = read(BEDROCK, &[&[0; 40]]).unwrap_err();
    assert_eq!(failure.reason, "the event stream is damaged: a frame of 0 bytes");
}

#[test]
fn exceptions_in_the_middle_are_classified() {
    let cases = [
        (
            exception("throttlingException", r#"{"message":"Too many tokens"}"#),
            FailureKind::Unavailable,
            "Too many tokens",
        ),
        (exception("internalServerException", r#"{"message":"oops"}"#), FailureKind::Unavailable, "oops"),
        (
            exception("modelStreamErrorException", r#"{"message":"broken","originalStatusCode":500}"#),
            FailureKind::Unavailable,
            "broken",
        ),
        (exception("serviceUnavailableException", "{}"), FailureKind::Unavailable, "serviceUnavailableException"),
        (exception("validationException", r#"{"message":"bad image"}"#), FailureKind::Refused, "bad image"),
        (
            exception("validationException", r#"{"message":"Input is too long for requested model."}"#),
            FailureKind::TooLong,
            "too long",
        ),
        (exception("validationException", "not JSON"), FailureKind::Refused, "not JSON"),
        (
            frame(&[(":message-type", "error"), (":error-code", "InternalFailure"), (":error-message", "sorry")], ""),
            FailureKind::Unavailable,
            "sorry",
        ),
        (
            frame(&[(":message-type", "error"), (":error-code", "InternalFailure")], ""),
            FailureKind::Unavailable,
            "InternalFailure",
        ),
    ];
    for (bytes, kind, reason) in cases {
        let failure = read(BEDROCK, &[&event("messageStart", &json!({ "role": "assistant" })), &bytes]).unwrap_err();
        assert!(failure.kind == kind && failure.reason.contains(reason), "{failure:?}");
    }
}

/// Frames of other kinds, events of other names and fields of other types change nothing.
#[test]
fn unknown_frames_are_ignored() {
    let odd = [
        frame(&[], ""),
        frame(&[(":message-type", "event")], "{}"),
        frame(&[(":message-type", "later")], "?"),
        event("laterEvent", &json!({ "x": 1 })),
        event("contentBlockDelta", &json!([])),
        event("contentBlockDelta", &json!({ "contentBlockIndex": "x", "delta": 5 })),
        event("contentBlockStart", &json!({ "start": null })),
        event("metadata", &json!({ "usage": 7, "trace": [] })),
        event("messageStop", &json!({ "stopReason": null })),
    ];
    let mut all = frames();
    for (place, odd) in odd.into_iter().enumerate() {
        all.insert(place * 2, odd);
    }
    check(&recorded(), &read(BEDROCK, &[&all.concat()]).unwrap());
}

/// The calls and results of a tool that Bedrock runs are not calls of the program, and are sent back.
#[test]
fn blocks_of_bedrocks_tools_are_kept() {
    let tool_use =
        json!({ "toolUse": { "toolUseId": "s", "name": "nova_code_interpreter", "type": "server_tool_use" } });
    let result = json!({ "toolResult": { "toolUseId": "s", "type": "nova_code_interpreter_result" } });
    let start =
        |index: u8, start: &Value| event("contentBlockStart", &json!({ "contentBlockIndex": index, "start": start }));
    let bytes = [
        start(0, &tool_use),
        delta(0, &json!({ "toolUse": { "input": "{\"code\":" } })),
        delta(0, &json!({ "toolUse": { "input": "\"1\"}" } })),
        stop(0),
        start(1, &result),
        delta(1, &json!({ "toolResult": [{ "text": "1" }] })),
        delta(1, &json!({ "toolResult": [{ "json": { "ok": true } }] })),
        stop(1),
        delta(2, &json!({ "text": "One." })),
        stop(2),
        event("messageStop", &json!({ "stopReason": "end_turn" })),
        event("metadata", &usage()),
    ];
    let mut used = tool_use.clone();
    used["toolUse"]["input"] = json!({ "code": "1" });
    let mut returned = result.clone();
    returned["toolResult"]["content"] = json!([{ "text": "1" }, { "json": { "ok": true } }]);
    let streamed = read(BEDROCK, &[&bytes.concat()]).unwrap();
    let kept: Vec<_> = streamed.message.reasoning().iter().map(|part| part.data.clone()).collect();
    assert_eq!(kept, [json!({ "converse_block": used }), json!({ "converse_block": returned })]);
    assert!(streamed.message.tool_calls().is_empty());
    let content = json!([used, returned, { "text": "One." }]);
    let whole = json!({ "output": { "message": { "content": content } }, "stopReason": "end_turn" });
    let whole = at_once(&RecordedAnswer { whole, ..recorded() });
    assert_eq!(whole.message.reasoning(), streamed.message.reasoning());
}

/// Sources arrive in the block of the text that they support, and go back with it.
#[test]
fn citations_have_passages_and_go_back() {
    let source = json!({
        "title": "Report", "source": "s3://b/r.pdf", "sourceContent": [{ "text": "It " }, { "text": "rains." }],
        "location": { "documentPage": { "documentIndex": 0, "start": 1, "end": 2 } },
    });
    let page = json!({ "title": "A", "location": { "web": { "url": "https://a.example", "domain": "a.example" } } });
    let bytes = [
        delta(0, &json!({ "text": "Für Zürich: " })),
        stop(0),
        delta(1, &json!({ "text": "es regnet" })),
        delta(1, &json!({ "citation": source })),
        delta(1, &json!({ "citation": page })),
        delta(1, &json!({ "text": "." })),
        stop(1),
        event("messageStop", &json!({ "stopReason": "end_turn" })),
        event("metadata", &usage()),
    ];
    let streamed = read(BEDROCK, &[&bytes.concat()]).unwrap().message;
    let cited = json!({ "citationsContent": { "content": [{ "text": "es regnet." }], "citations": [source, page] } });
    let content = json!([{ "text": "Für Zürich: " }, cited]);
    let whole = json!({ "output": { "message": { "content": content } }, "stopReason": "end_turn" });
    let whole = at_once(&RecordedAnswer { whole, ..recorded() }).message;
    for message in [streamed, whole] {
        let text = message.text();
        let [first, second] = message.citations() else { panic!("two sources: {message:?}") };
        assert_eq!((first.passage(&text), second.passage(&text)), (Some("es regnet."), Some("es regnet.")));
        assert_eq!((first.title.as_deref(), first.url.as_deref()), (Some("Report"), Some("s3://b/r.pdf")));
        assert_eq!(first.cited_text.as_deref(), Some("It rains."));
        assert_eq!(second.url.as_deref(), Some("https://a.example"));
        let request = ChatRequest::new([hier_agents::Message::user("hi"), message]);
        let tools = ProviderTools::default();
        let wire_request = |maker| crate::wire::WireRequest {
            model: "m",
            maker,
            request: &request,
            tools: &tools,
            native_output: None,
            searches_tools: false,
            streamed: false,
        };
        let body = crate::wire::request(BEDROCK, &wire_request("maker")).unwrap();
        assert_eq!(body["messages"][1]["content"], content, "{body:#}");
        let other = crate::wire::request(ANTHROPIC, &wire_request("maker")).unwrap();
        assert!(!other.to_string().contains("itations"), "not in the form of Anthropic: {other:#}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    /// Random bytes, alone and between frames, never panic, and fail as they do in one piece.
    #[test]
    fn arbitrary_frames_end_the_same_in_pieces(
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4),
        noise in prop::collection::vec(any::<u8>(), 0..40),
        place in any::<prop::sample::Index>(),
        order in any::<prop::sample::Index>(),
        cut in any::<prop::sample::Index>(),
    ) {
        let mut all = frames();
        let swapped = order.index(all.len() - 1);
        all.swap(swapped, swapped + 1);
        all.insert(place.index(all.len()), noise);
        let mut bytes = all.concat();
        for (place, byte) in &changes {
            let place = place.index(bytes.len());
            bytes[place] = *byte;
        }
        let cut = cut.index(bytes.len());
        match (read(BEDROCK, &[&bytes]), read(BEDROCK, &[&bytes[..cut], &bytes[cut..]])) {
            (Ok(a), Ok(b)) => prop_assert_eq!(a.message.body, b.message.body),
            (Err(a), Err(b)) => prop_assert_eq!((a.kind, a.reason), (b.kind, b.reason)),
            (a, b) => prop_assert!(false, "{a:?} at once, {b:?} in pieces"),
        }
    }
}
