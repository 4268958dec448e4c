//! Streams in all dialects, split at arbitrary bytes.

use futures_util::{FutureExt, stream};
use hier_agents::{ChatChunk, ChatRequest, ChatResponse, FinishReason, ModelPrice, Usage, Usd};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::key::ApiKey;
use crate::provider_tools::ProviderTools;
use crate::server::ModelServer;
use crate::wire::recorded::{RecordedAnswer, events, openai_delta, recorded_answers};
use crate::wire::{ANTHROPIC, Dialect, GEMINI, OLLAMA, OPENAI, RESPONSES};

mod calls;
#[cfg(feature = "bedrock")]
mod frames;
mod odd;
mod random;

fn stream_of(
    wire: &'static dyn Dialect,
    bytes: impl Stream<Item = Result<Bytes, ModelFailure>> + Send + 'static,
) -> AnswerStream {
    let server = ModelServer::new("m".to_owned(), "http://localhost".to_owned(), ApiKey::None);
    let request = ChatRequest::default();
    let draft = AnswerDraft::new(&request, "maker".to_owned(), true);
    let pieces = AnswerStream::new(
        Arc::new(ChatEndpoint { wire, server, tools: ProviderTools::default() }),
        request,
        split_values(wire.info().framing, bytes),
    );
    AnswerStream { draft, ..pieces }
}

/// Collects the chunks of a stream as a user interface does.
#[derive(Default)]
struct CollectedChunks {
    text: String,
    thoughts: String,
    calls: Vec<(String, String, String)>,
}

impl CollectedChunks {
    fn add(&mut self, piece: ChatChunk) -> Option<ChatResponse> {
        match piece {
            ChatChunk::Text(text) => self.text += &text,
            ChatChunk::Reasoning(text) => self.thoughts += &text,
            ChatChunk::CallStarted { id, name, .. } => self.calls.push((id, name, String::new())),
            ChatChunk::CallArguments { id, text, .. } => {
                let call = self.calls.iter_mut().find(|(known, ..)| *known == id).expect("the call has begun");
                call.2 += &text;
            }
            ChatChunk::Done(answer) => return Some(answer),
            other => panic!("{other:?}"),
        }
        None
    }

    /// Asserts that the chunks add up to the answer.
    fn check(&self, answer: &ChatResponse) {
        assert_eq!(self.text, answer.text(), "the pieces are the text of the answer");
        // The pieces of several thoughts may alternate.
        let letters = |text: &str| {
            let mut letters: Vec<char> = text.chars().collect();
            letters.sort_unstable();
            letters
        };
        let thoughts: String = answer.message.reasoning().iter().map(|thought| &*thought.text).collect();
        assert_eq!(letters(&self.thoughts), letters(&thoughts));
        for call in answer.message.tool_calls().iter().filter(|call| !call.name.is_empty()) {
            let chunks = self.calls.iter().find(|(id, ..)| *id == call.id).expect("its beginning was streamed");
            assert_eq!(chunks.1, call.name);
            let args = serde_json::from_str(&chunks.2).unwrap_or_else(|_| json!(chunks.2));
            let empty = matches!(chunks.2.trim(), "" | "null") && call.args == json!({});
            let cut_off = call.args.as_str().is_some_and(|args| args.starts_with("cut off"));
            assert!(args == call.args || empty || cut_off, "{chunks:?} is {call:?}");
        }
    }
}

/// Reads a stream whose bytes arrive in these pieces, followed by a regular end.
fn read(wire: &'static dyn Dialect, pieces: &[&[u8]]) -> Result<ChatResponse, ModelFailure> {
    let bytes: Vec<_> = pieces.iter().map(|piece| Ok(Bytes::copy_from_slice(piece))).collect();
    let mut pieces = stream_of(wire, stream::iter(bytes));
    let mut chunks = CollectedChunks::default();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    runtime.block_on(async {
        loop {
            let piece = pieces.next().await.expect("a stream ends with an answer or an error")?;
            if let Some(answer) = chunks.add(piece) {
                chunks.check(&answer);
                assert!(pieces.next().now_or_never().is_some_and(|next| next.is_none()), "nothing comes after it");
                return Ok(answer);
            }
        }
    })
}

/// Reads the same answer as a whole.
fn at_once(recorded: &RecordedAnswer) -> ChatResponse {
    let request = ChatRequest::default();
    let mut draft = AnswerDraft::new(&request, "maker".to_owned(), false);
    recorded.wire.read_answer(&mut draft, &recorded.whole).unwrap();
    draft.into_answer().unwrap()
}

fn check(recorded: &RecordedAnswer, answer: &ChatResponse) {
    assert_eq!(answer.text(), "grüß€🎉");
    let calls: Vec<_> =
        answer.message.tool_calls().iter().map(|call| (&*call.id, &*call.name, call.args.clone())).collect();
    assert_eq!(calls, [("a", "pay", json!({ "e": 1 })), ("b", "look", json!({}))]);
    let usage = answer.message.usage().expect("a cost");
    assert_eq!((usage.input_tokens, usage.output_tokens), (7, 5));
    let is_ollama = recorded.wire.info().name == "ollama";
    assert_eq!(usage.cached_tokens, if is_ollama { 0 } else { 3 }, "{}", recorded.wire.info().name);
    assert_eq!((answer.model.as_deref(), &answer.finish), (Some("m"), &Some(FinishReason::ToolCalls)));
    let thoughts = answer.message.reasoning().iter().map(|it| (&*it.text, it.call.as_deref(), it.data.clone()));
    assert_eq!(thoughts.collect::<Vec<_>>(), recorded.thoughts, "{}", recorded.wire.info().name);
    assert!(answer.message.reasoning().iter().all(|thought| thought.maker == "maker"));
}

/// For all providers, cached and written tokens are part of the prompt, and reasoning is part of the answer.
#[test]
fn usage_of_all_providers_is_priced_by_one_rule() {
    const PRICE: ModelPrice = ModelPrice::new(1.0, 10.0).cached_input(0.1).cache_write(2.0).reasoning(20.0);
    for recorded in recorded_answers() {
        let usage = at_once(&recorded).message.usage().unwrap();
        let micro = match recorded.wire.info().name {
            "ollama" => 7.0 + 50.0,
            "anthropic" => 3.0 + 0.3 + 2.0 + 50.0,
            _ => 4.0 + 0.3 + 30.0 + 40.0,
        };
        assert_eq!(PRICE.cost(usage), Usd::from_dollars(micro / 1e6), "{}", recorded.wire.info().name);
    }
}

#[test]
fn reasoning_that_is_counted_separately_becomes_part_of_the_answer() {
    let read = |usage: Value| {
        let answer =
            json!({ "choices": [{ "message": { "content": "Hi." }, "finish_reason": "stop" }], "usage": usage });
        let recorded = RecordedAnswer { wire: OPENAI, stream: String::new(), whole: answer, thoughts: Vec::new() };
        at_once(&recorded).message.usage().unwrap()
    };
    let usage = |total: u64| {
        json!({
            "prompt_tokens": 12, "completion_tokens": 400, "total_tokens": total,
            "prompt_tokens_details": { "cached_tokens": 4, "cache_write_tokens": 2 },
            "completion_tokens_details": { "reasoning_tokens": 386 },
        })
    };
    let expected = |output| Usage::new(12, output).with_cached(4).with_cache_write(2).with_reasoning(386);
    assert_eq!(read(usage(412)), expected(400));
    assert_eq!(read(usage(798)), expected(786));
}

#[test]
fn streamed_answer_equals_complete_answer() {
    for recorded in recorded_answers() {
        let answer = at_once(&recorded);
        check(&recorded, &answer);
        let streamed = read(recorded.wire, &[recorded.stream.as_bytes()]).unwrap();
        assert_eq!((streamed.message.body, streamed.finish), (answer.message.body, answer.finish));
    }
}

#[test]
fn stream_split_anywhere_gives_same_answer() {
    for recorded in recorded_answers() {
        for text in [recorded.stream.clone(), recorded.stream.replace('\n', "\r\n")] {
            let bytes = text.as_bytes();
            check(&recorded, &read(recorded.wire, &[bytes]).unwrap());
            for cut in 0..=bytes.len() {
                check(&recorded, &read(recorded.wire, &[&bytes[..cut], &bytes[cut..]]).unwrap());
            }
            let single: Vec<&[u8]> = bytes.chunks(1).collect();
            check(&recorded, &read(recorded.wire, &single).unwrap());
        }
    }
}

#[test]
fn truncated_stream_fails_or_is_complete() {
    for RecordedAnswer { wire, stream, .. } in recorded_answers() {
        for end in 0..stream.len() {
            match read(wire, &[&stream.as_bytes()[..end]]) {
                Err(failure) => {
                    assert_eq!(
                        failure.kind,
                        crate::error::FailureKind::Unavailable,
                        "{}: {failure:?}",
                        wire.info().name
                    );
                }
                // The finish reason has arrived, and only later data is missing.
                Ok(answer) => assert_eq!(answer.message.tool_calls().len(), 2, "{}", wire.info().name),
            }
        }
    }
}

const IDLE: Duration = Duration::from_mins(2);

/// A server may send more after the finish reason. The client waits for the usual time, or for a short time once only
/// the end of the stream is outstanding.
#[test]
fn stream_is_read_after_its_finish_reason() {
    let end = events(&[openai_delta(&json!({ "content": "hi" }), Some("stop"))]);
    let late = events(&[json!({ "choices": [], "usage": { "prompt_tokens": 7, "completion_tokens": 5 } })]);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    for (wait, counted) in [(119_999, true), (120_001, false)] {
        let (end, late) = (Bytes::from(end.clone()), Bytes::from(late.clone()));
        let silent = stream::once(async move { Ok(end) })
            .chain(stream::once(async move {
                tokio::time::sleep(Duration::from_millis(wait)).await;
                Ok(late)
            }))
            .chain(stream::pending());
        let (usage, took) = runtime.block_on(async {
            let start = tokio::time::Instant::now();
            let mut pieces = stream_of(OPENAI, Box::pin(silent));
            assert_eq!(pieces.next().await.unwrap().unwrap(), ChatChunk::Text("hi".to_owned()));
            let Some(Ok(ChatChunk::Done(answer))) = pieces.next().await else { panic!("it ends") };
            (answer.message.usage(), start.elapsed())
        });
        assert_eq!(usage.is_some(), counted);
        let expected = if counted { Duration::from_millis(wait) + LAST_WORDS } else { IDLE };
        assert_eq!(took, expected);
    }
}

/// Only data counts. Comments do not keep a stream alive, and pings only keep a stream of Anthropic's API alive.
#[test]
fn silent_stream_times_out() {
    let openai = events(&[openai_delta(&json!({ "content": "hi" }), None)]);
    let delta = json!({ "type": "text_delta", "text": "hi" });
    let anthropic = events(&[json!({ "type": "content_block_delta", "index": 0, "delta": delta })]);
    let (comment, ping) = (": processing\n\n".to_owned(), events(&[json!({ "type": "ping" })]));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    for (wire, begin, kept_alive, is_alive) in [
        (OPENAI, &openai, vec![&comment], false),
        (OPENAI, &openai, vec![&ping], false),
        (OPENAI, &openai, vec![&openai], true),
        (ANTHROPIC, &anthropic, vec![&comment], false),
        (ANTHROPIC, &anthropic, vec![&ping, &ping, &ping, &anthropic], true),
    ] {
        let kept_alive: Vec<Bytes> = kept_alive.into_iter().cloned().map(Bytes::from).collect();
        let ticks = stream::iter(kept_alive.into_iter().cycle()).then(|tick| async move {
            tokio::time::sleep(Duration::from_secs(50)).await;
            Ok(tick)
        });
        let begin = Bytes::from(begin.clone());
        let mut pieces = stream_of(wire, Box::pin(stream::once(async move { Ok(begin) }).chain(ticks)));
        runtime.block_on(async {
            let start = tokio::time::Instant::now();
            for _ in 0..10 {
                match pieces.next().await.unwrap() {
                    Ok(piece) => assert_eq!(piece, ChatChunk::Text("hi".to_owned())),
                    Err(failure) => {
                        assert!(!is_alive && failure.reason.contains("`Model::idle_timeout`"), "{failure:?}");
                        assert_eq!((start.elapsed(), failure.kind), (IDLE, crate::error::FailureKind::Unavailable));
                        return;
                    }
                }
            }
            assert!(is_alive);
        });
    }
}

/// Time in which the consumer does not poll does not count as the provider's silence.
#[test]
fn pausing_consumer_does_not_time_out() {
    let part = Bytes::from(events(&[openai_delta(&json!({ "content": "hi" }), None)]));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    runtime.block_on(async {
        let slow = stream::unfold(part, |part| async move {
            tokio::time::sleep(Duration::from_secs(10)).await;
            Some((Ok(part.clone()), part))
        });
        let mut pieces = stream_of(OPENAI, Box::pin(slow.take(3).chain(stream::pending())));
        let hi = ChatChunk::Text("hi".to_owned());
        assert_eq!(pieces.next().await.unwrap().unwrap(), hi);
        tokio::time::sleep(2 * IDLE).await;
        assert_eq!(pieces.next().await.unwrap().unwrap(), hi, "it paused between two pieces");
        let mut next = Box::pin(pieces.next());
        assert!(next.as_mut().now_or_never().is_none());
        tokio::time::advance(2 * IDLE).await;
        assert_eq!(next.await.unwrap().unwrap(), hi, "it paused while it waited for a piece");

        let mut next = Box::pin(pieces.next());
        assert!(next.as_mut().now_or_never().is_none());
        tokio::time::advance(2 * IDLE).await;
        let start = tokio::time::Instant::now();
        assert!(next.await.unwrap().unwrap_err().reason.contains("`Model::idle_timeout`"));
        assert_eq!(start.elapsed(), IDLE, "a provider that sends nothing more is given up afterwards");
    });
}

/// A connection that breaks after the finish reason may have broken in the middle of the answer.
#[test]
fn broken_connection_after_finish_reason_fails() {
    let part = Bytes::from(events(&[openai_delta(&json!({ "content": "one " }), Some("stop"))]));
    let broken = stream::iter([Ok(part), Err(ModelFailure::unavailable("reset"))]);
    let mut pieces = stream_of(OPENAI, broken);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    runtime.block_on(async {
        assert_eq!(pieces.next().await.unwrap().unwrap(), ChatChunk::Text("one ".to_owned()));
        assert_eq!(pieces.next().await.unwrap().unwrap_err().reason, "reset");
    });
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    /// For any bytes in any pieces, the stream ends in the same way as for one piece.
    #[test]
    fn arbitrary_bytes_end_the_same_in_pieces(
        which in 0_usize..5,
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4),
        order in any::<prop::sample::Index>(),
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..6),
    ) {
        let RecordedAnswer { wire, stream: text, .. } = recorded_answers()[which].clone();
        // Two adjacent events are swapped.
        let separator = if wire.info().framing == Framing::Events { "\n\n" } else { "\n" };
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
                let thoughts = |answer: &ChatResponse| -> Vec<(String, Value)> {
                    answer.message.reasoning().iter().map(|it| (it.text.clone(), it.data.clone())).collect()
                };
                prop_assert_eq!(thoughts(&a), thoughts(&b));
                prop_assert_eq!((a.finish, a.message.usage()), (b.finish, b.message.usage()));
            }
            (Err(a), Err(b)) => prop_assert_eq!((a.kind, a.reason), (b.kind, b.reason)),
            (a, b) => prop_assert!(false, "{a:?} at once, {b:?} in pieces"),
        }
    }
}

#[test]
fn error_events_are_reported() {
    let failed = json!({ "status": "failed", "error": { "code": "server_error", "message": "a bad day" } });
    let cases: [(&dyn Dialect, String, &str); 8] = [
        (OPENAI, events(&[json!({ "error": { "message": "no credits" } })]), "no credits"),
        (OPENAI, "data: [DONE]\n\n".to_owned(), "neither text nor a tool call"),
        (
            ANTHROPIC,
            events(&[json!({ "type": "error", "error": { "type": "overloaded_error", "message": "busy" } })]),
            "busy",
        ),
        (OLLAMA, "{\"error\":\"out of memory\"}\n".to_owned(), "out of memory"),
        (
            GEMINI,
            events(&[json!({ "error": { "code": 503, "message": "overloaded", "status": "UNAVAILABLE" } })]),
            "overloaded",
        ),
        (GEMINI, events(&[json!({ "promptFeedback": { "blockReason": "SAFETY" } })]), "blocked the prompt (`SAFETY`)"),
        (RESPONSES, events(&[json!({ "type": "response.failed", "response": failed })]), "a bad day"),
        (
            RESPONSES,
            events(&[json!({ "type": "error", "code": "rate_limit_exceeded", "message": "slower" })]),
            "slower",
        ),
    ];
    for (wire, text, chunks) in cases {
        let wire = crate::wire::ALL.into_iter().find(|known| known.info().name == wire.info().name).unwrap();
        let failure = read(wire, &[text.as_bytes()]).unwrap_err();
        assert!(failure.reason.contains(chunks), "{failure:?}");
    }
}

#[test]
fn finish_reason_needs_no_end_mark() {
    let text = events(&[openai_delta(&json!({ "content": "hi" }), Some("stop"))]);
    assert_eq!(read(OPENAI, &[text.as_bytes()]).unwrap().text(), "hi");
    let text = events(&[openai_delta(&json!({ "content": "hi" }), None)]) + "data: [DONE]\n\n";
    assert_eq!(read(OPENAI, &[text.as_bytes()]).unwrap().text(), "hi");
}
