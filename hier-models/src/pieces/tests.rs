//! Streams, cut into bytes in every way, in all dialects.

use futures_util::{FutureExt, stream};
use hier_agents::{ChatChunk, ChatRequest, ChatResponse, FinishReason};
use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::server::{Key, Server};
use crate::wire::recorded::{Recorded, events, openai_delta, recorded};
use crate::wire::{ANTHROPIC, GEMINI, OLLAMA, OPENAI, RESPONSES, Wire};

mod calls;
mod odd;
mod random;

/// The pieces of a stream of bytes.
fn of(wire: &'static dyn Wire, bytes: impl Stream<Item = Result<Bytes, Failure>> + Send + 'static) -> Pieces {
    let server = Server::new("m".to_owned(), "http://localhost".to_owned(), Key::None);
    let request = ChatRequest::default();
    let draft = Draft::new(&request, "maker".to_owned(), true);
    let pieces = Pieces::new(Arc::new(Endpoint { wire, server }), request, cut(wire.framing(), bytes));
    Pieces { draft, ..pieces }
}

/// What the pieces of a stream say, gathered as whoever shows them does.
#[derive(Default)]
struct Told {
    text: String,
    thoughts: String,
    calls: Vec<(String, String, String)>,
}

impl Told {
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

    /// The pieces add up to the answer.
    fn check(&self, answer: &ChatResponse) {
        assert_eq!(self.text, answer.text(), "the pieces are the text of the answer");
        // Several thoughts may come by turns.
        let letters = |text: &str| {
            let mut letters: Vec<char> = text.chars().collect();
            letters.sort_unstable();
            letters
        };
        let thoughts: String = answer.message.reasoning().iter().map(|thought| &*thought.text).collect();
        assert_eq!(letters(&self.thoughts), letters(&thoughts));
        for call in answer.message.tool_calls().iter().filter(|call| !call.name.is_empty()) {
            let told = self.calls.iter().find(|(id, ..)| *id == call.id).expect("its beginning was told");
            assert_eq!(told.1, call.name);
            let args = serde_json::from_str(&told.2).unwrap_or_else(|_| json!(told.2));
            let empty = told.2.trim().is_empty() && call.args == json!({});
            let cut_off = call.args.as_str().is_some_and(|args| args.starts_with("cut off"));
            assert!(args == call.args || empty || cut_off, "{told:?} is {call:?}");
        }
    }
}

/// What comes of a stream whose bytes come in these pieces, and then end in order.
fn read(wire: &'static dyn Wire, pieces: &[&[u8]]) -> Result<ChatResponse, Failure> {
    let bytes: Vec<_> = pieces.iter().map(|piece| Ok(Bytes::copy_from_slice(piece))).collect();
    let mut pieces = of(wire, stream::iter(bytes));
    let mut told = Told::default();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    runtime.block_on(async {
        loop {
            let piece = pieces.next().await.expect("a stream ends with an answer or an error")?;
            if let Some(answer) = told.add(piece) {
                told.check(&answer);
                assert!(pieces.next().now_or_never().is_some_and(|next| next.is_none()), "nothing comes after it");
                return Ok(answer);
            }
        }
    })
}

/// What comes of the same answer, read as a whole.
fn at_once(recorded: &Recorded) -> ChatResponse {
    let request = ChatRequest::default();
    let mut draft = Draft::new(&request, "maker".to_owned(), false);
    recorded.wire.whole(&mut draft, &recorded.whole).unwrap();
    draft.answer(&request).unwrap()
}

fn check(recorded: &Recorded, answer: &ChatResponse) {
    assert_eq!(answer.text(), "grüß€🎉");
    let calls: Vec<_> =
        answer.message.tool_calls().iter().map(|call| (&*call.id, &*call.name, call.args.clone())).collect();
    assert_eq!(calls, [("a", "pay", json!({ "e": 1 })), ("b", "look", json!({}))]);
    let usage = answer.message.usage().expect("a cost");
    assert_eq!((usage.input_tokens, usage.output_tokens), (7, 5));
    let is_ollama = recorded.wire.name() == "ollama";
    assert_eq!(usage.cached_tokens, if is_ollama { 0 } else { 3 }, "{}", recorded.wire.name());
    assert_eq!((answer.model.as_deref(), &answer.finish), (Some("m"), &Some(FinishReason::ToolCalls)));
    let thoughts = answer.message.reasoning().iter().map(|it| (&*it.text, it.call.as_deref(), it.data.clone()));
    assert_eq!(thoughts.collect::<Vec<_>>(), recorded.thoughts, "{}", recorded.wire.name());
    assert!(answer.message.reasoning().iter().all(|thought| thought.maker == "maker"));
}

#[test]
fn a_stream_is_the_answer_read_at_once() {
    for recorded in recorded() {
        let answer = at_once(&recorded);
        check(&recorded, &answer);
        let streamed = read(recorded.wire, &[recorded.stream.as_bytes()]).unwrap();
        assert_eq!((streamed.message.body, streamed.finish), (answer.message.body, answer.finish));
    }
}

#[test]
fn a_stream_is_the_same_answer_wherever_it_is_cut() {
    for recorded in recorded() {
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
fn a_stream_that_ends_early_is_an_error_or_whole() {
    for Recorded { wire, stream, .. } in recorded() {
        for end in 0..stream.len() {
            match read(wire, &[&stream.as_bytes()[..end]]) {
                Err(failure) => {
                    assert_eq!(failure.kind, crate::error::Kind::Unavailable, "{}: {failure:?}", wire.name());
                }
                // Why it ends was said: only what comes behind that is missing.
                Ok(answer) => assert_eq!(answer.message.tool_calls().len(), 2, "{}", wire.name()),
            }
        }
    }
}

/// The idle limit of a server whose settings are the defaults.
const IDLE: Duration = Duration::from_mins(2);

/// A server that has said why the answer ends may say more: it is waited for as long as any other, and for a short while once
/// only the end of the stream is outstanding.
#[test]
fn a_stream_is_read_to_its_end() {
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
            let mut pieces = of(OPENAI, Box::pin(silent));
            assert_eq!(pieces.next().await.unwrap().unwrap(), ChatChunk::Text("hi".to_owned()));
            let Some(Ok(ChatChunk::Done(answer))) = pieces.next().await else { panic!("it ends") };
            (answer.message.usage(), start.elapsed())
        });
        assert_eq!(usage.is_some(), counted);
        let expected = if counted { Duration::from_millis(wait) + LAST_WORDS } else { IDLE };
        assert_eq!(took, expected);
    }
}

/// Only data counts: comments and pings do not keep a stream alive.
#[test]
fn a_stream_that_stalls_is_given_up() {
    let begin = events(&[openai_delta(&json!({ "content": "hi" }), None)]);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    for (kept_alive, is_alive) in
        [(": processing\n\n".to_owned(), false), (events(&[json!({ "type": "ping" })]), false), (begin.clone(), true)]
    {
        let ticks = stream::unfold(Bytes::from(kept_alive), |tick| async move {
            tokio::time::sleep(Duration::from_secs(50)).await;
            Some((Ok(tick.clone()), tick))
        });
        let begin = Bytes::from(begin.clone());
        let mut pieces = of(OPENAI, Box::pin(stream::once(async move { Ok(begin) }).chain(ticks)));
        runtime.block_on(async {
            let start = tokio::time::Instant::now();
            for _ in 0..10 {
                match pieces.next().await.unwrap() {
                    Ok(piece) => assert_eq!(piece, ChatChunk::Text("hi".to_owned())),
                    Err(failure) => {
                        assert!(!is_alive && failure.reason.contains("`Model::idle`"), "{failure:?}");
                        assert_eq!((start.elapsed(), failure.kind), (IDLE, crate::error::Kind::Unavailable));
                        return;
                    }
                }
            }
            assert!(is_alive);
        });
    }
}

/// The time in which a consumer does something else is not the provider's.
#[test]
fn a_consumer_that_pauses_does_not_stall_its_stream() {
    let part = Bytes::from(events(&[openai_delta(&json!({ "content": "hi" }), None)]));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    runtime.block_on(async {
        let slow = stream::unfold(part, |part| async move {
            tokio::time::sleep(Duration::from_secs(10)).await;
            Some((Ok(part.clone()), part))
        });
        let mut pieces = of(OPENAI, Box::pin(slow.take(3).chain(stream::pending())));
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
        assert!(next.await.unwrap().unwrap_err().reason.contains("`Model::idle`"));
        assert_eq!(start.elapsed(), IDLE, "a provider that sends nothing more is given up afterwards");
    });
}

/// A connection that breaks after a reason for the end may have broken in the middle of the answer.
#[test]
fn a_connection_that_breaks_after_a_reason_is_an_error() {
    let part = Bytes::from(events(&[openai_delta(&json!({ "content": "one " }), Some("stop"))]));
    let broken = stream::iter([Ok(part), Err(Failure::unavailable("reset"))]);
    let mut pieces = of(OPENAI, broken);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    runtime.block_on(async {
        assert_eq!(pieces.next().await.unwrap().unwrap(), ChatChunk::Text("one ".to_owned()));
        assert_eq!(pieces.next().await.unwrap().unwrap_err().reason, "reset");
    });
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    /// Whatever bytes come, in whatever pieces: the stream ends, as the same bytes in one piece do.
    #[test]
    fn any_bytes_end_as_they_do_at_once(
        which in 0_usize..5,
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4),
        order in any::<prop::sample::Index>(),
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..6),
    ) {
        let Recorded { wire, stream: text, .. } = recorded()[which].clone();
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
fn what_a_server_says_is_wrong_is_told() {
    let failed = json!({ "status": "failed", "error": { "code": "server_error", "message": "a bad day" } });
    let cases: [(&dyn Wire, String, &str); 8] = [
        (OPENAI, events(&[json!({ "error": { "message": "no credits" } })]), "no credits"),
        (OPENAI, "data: [DONE]\n\n".to_owned(), "neither text nor a call"),
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
        (GEMINI, events(&[json!({ "promptFeedback": { "blockReason": "SAFETY" } })]), "blocked (SAFETY)"),
        (RESPONSES, events(&[json!({ "type": "response.failed", "response": failed })]), "a bad day"),
        (
            RESPONSES,
            events(&[json!({ "type": "error", "code": "rate_limit_exceeded", "message": "slower" })]),
            "slower",
        ),
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
