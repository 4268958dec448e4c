//! Recorded conversations: recording, lookup and the errors of misses.

use std::path::PathBuf;
use std::sync::Arc;

use futures_util::StreamExt;
use hier_agents::{ChatChunk, ChatModel, ChatRequest, ModelError, ModelOptions, Usage, Usd};

use hier_agents::prelude::*;
use hier_core::message::ToolCall;
use hier_testkit::{RecordedModel, ScriptedModel};
use serde_json::json;

/// A file that is deleted after the test.
struct Tape(PathBuf);

impl Tape {
    fn new(name: &str) -> Self {
        Self(std::env::temp_dir().join(format!("hier-{}-{name}.jsonl", std::process::id())))
    }
}

impl Drop for Tape {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

fn ask(texts: &[&str]) -> ChatRequest {
    ChatRequest::new(texts.iter().map(|text| Message::user(*text)).collect::<Messages>())
}

fn script(replies: &[Message]) -> Arc<ScriptedModel> {
    Arc::new(ScriptedModel::new(replies.to_vec()).named("clerk"))
}

#[tokio::test]
async fn recording_replays_without_the_model() {
    let tape = Tape::new("plays");
    let call = ToolCall { name: "look".to_owned(), args: json!({ "q": "ü" }), id: "c1".to_owned() };
    let first = Message::calls("let me see", [call.clone()]).with_usage(Usage::new(3, 4));
    let model = RecordedModel::record(script(&[first.clone(), Message::assistant("done")]), &tape.0).unwrap();
    let answer = model.chat(ask(&["hello"])).await.unwrap();
    let second = ChatRequest::new([Message::user("hello"), answer.message.clone(), Message::tool(&call, "7 %")]);
    model.chat(second.clone()).await.unwrap();
    assert_eq!(model.len(), 2);

    let replay = RecordedModel::replay(&tape.0).unwrap();
    assert_eq!((replay.name(), replay.provider(), replay.len()), ("clerk", "scripted", 2));
    // The program has other prices now.
    let priced = Usage::new(3, 4).with_cost(Usd::from_dollars(0.01));
    let anew = second.messages.iter().cloned().map(|m| Message { id: None, ..m.with_usage(priced) });
    let reordered = ChatRequest::new(anew.collect::<Messages>());
    assert_eq!(
        replay.chat(reordered).await.unwrap().message,
        Message::assistant("done"),
        "the ids of messages and their costs do not count"
    );
    assert_eq!(replay.chat(ask(&["hello"])).await.unwrap().message, first);
}

#[tokio::test]
async fn equal_requests_get_their_answers_in_order() {
    let tape = Tape::new("order");
    let model = RecordedModel::record(script(&[Message::assistant("1"), Message::assistant("2")]), &tape.0).unwrap();
    for _ in 0..2 {
        model.chat(ask(&["again"])).await.unwrap();
    }
    let replay = RecordedModel::replay(&tape.0).unwrap();
    for text in ["1", "2", "2"] {
        assert_eq!(replay.chat(ask(&["again"])).await.unwrap().text(), text);
    }
}

#[tokio::test]
async fn miss_shows_the_nearest_request() {
    let tape = Tape::new("miss");
    let model = RecordedModel::record(script(&[Message::assistant("1"), Message::assistant("2")]), &tape.0).unwrap();
    model.chat(ask(&["far away"])).await.unwrap();
    model.chat(ask(&["one", "two", "three"])).await.unwrap();
    let replay = RecordedModel::replay(&tape.0).unwrap();
    let miss = async |request| replay.chat(request).await.unwrap_err().to_string();
    let received = miss(ask(&["one", "zwei", "three"])).await;
    assert!(received.contains("in line 2, differs in message 2: recorded `{\"content\":\"two\""), "{received}");
    assert!(received.contains("zwei"), "{received}");
    let received = miss(ask(&["one", "two"])).await;
    assert!(received.contains("in line 2, continues with message 3"), "{received}");
    let received = miss(ask(&["one", "two", "three", "four"])).await;
    assert!(received.contains("in line 2, ends before message 4"), "{received}");
    let hotter = ModelOptions::new().temperature(1.0);
    let received = miss(ask(&["far away"]).options(hotter)).await;
    assert!(received.contains("in line 1, has the same messages but different options"), "{received}");
}

#[tokio::test]
async fn recording_can_be_completed() {
    let tape = Tape::new("complete");
    let first = RecordedModel::complete(script(&[Message::assistant("1")]), &tape.0).unwrap();
    assert!(first.is_empty());
    first.chat(ask(&["a"])).await.unwrap();
    let model = script(&[Message::assistant("2")]);
    let second = RecordedModel::complete(model.clone(), &tape.0).unwrap();
    assert_eq!(second.chat(ask(&["a"])).await.unwrap().text(), "1");
    assert_eq!(model.call_count(), 0, "recorded requests are not sent again");
    assert_eq!(second.chat(ask(&["b"])).await.unwrap().text(), "2");
    assert_eq!(RecordedModel::replay(&tape.0).unwrap().len(), 2);
}

#[tokio::test]
async fn streams_are_recorded_and_replayed() {
    let tape = Tape::new("streams");
    let model = RecordedModel::record(script(&[Message::assistant("to be")]), &tape.0).unwrap();
    let recorded: Vec<_> = model.stream(ask(&["?"])).await.unwrap().map(Result::unwrap).collect().await;
    let replay = RecordedModel::replay(&tape.0).unwrap();
    let played: Vec<_> = replay.stream(ask(&["?"])).await.unwrap().map(Result::unwrap).collect().await;
    assert_eq!(recorded, played);
    assert_eq!(played[..2], ["to ", "be"].map(|word| ChatChunk::Text(word.to_owned())));
}

#[tokio::test]
async fn unusable_recordings_are_reported() {
    let missing = RecordedModel::replay("/nowhere/at/all.jsonl").unwrap_err();
    assert!(matches!(missing, ModelError::Recording { .. }), "{missing:?}");
    let tape = Tape::new("torn");
    std::fs::write(&tape.0, "{\"key\": \"x\", \"requ").unwrap();
    let torn = RecordedModel::replay(&tape.0).unwrap_err().to_string();
    assert!(torn.contains("line 1 is not a recorded reply"), "{torn}");
}

#[tokio::test]
async fn replay_reports_costs_if_all_answers_have_them() {
    let tape = Tape::new("costs");
    let costly = |text: &str| Message::assistant(text).with_usage(Usage::new(1, 1).with_cost(Usd::from_dollars(0.5)));
    let model = RecordedModel::complete(script(&[costly("1"), Message::assistant("2")]), &tape.0).unwrap();
    assert!(!model.reports_cost(), "as the recorded model");
    model.chat(ask(&["a"])).await.unwrap();
    assert!(RecordedModel::replay(&tape.0).unwrap().reports_cost());
    model.chat(ask(&["b"])).await.unwrap();
    assert!(!RecordedModel::replay(&tape.0).unwrap().reports_cost());
}

/// Editors may remove the line break at the end of a file.
#[tokio::test]
async fn recording_without_a_last_line_break_is_completed() {
    let tape = Tape::new("break");
    RecordedModel::record(script(&[Message::assistant("1")]), &tape.0).unwrap().chat(ask(&["one"])).await.unwrap();
    let text = std::fs::read_to_string(&tape.0).unwrap();
    std::fs::write(&tape.0, text.trim_end()).unwrap();
    let model = RecordedModel::complete(script(&[Message::assistant("2")]), &tape.0).unwrap();
    model.chat(ask(&["two"])).await.unwrap();
    let replay = RecordedModel::replay(&tape.0).unwrap();
    for (question, reply) in [("one", "1"), ("two", "2")] {
        assert_eq!(replay.chat(ask(&[question])).await.unwrap().text(), reply);
    }
    assert_eq!(std::fs::read_to_string(&tape.0).unwrap().lines().count(), 2);
}
