//! The scripted model: its answers and its stored requests.

use futures_util::StreamExt;
use hier_agents::{ChatChunk, ChatModel, ChatRequest, ModelError, Reasoning};

use hier_agents::prelude::*;
use hier_core::message::ToolCall;
use hier_testkit::ScriptedModel;
use serde_json::json;

fn ask(text: &str) -> ChatRequest {
    ChatRequest::new([Message::user(text).with_id(text)])
}

#[tokio::test]
async fn answers_come_in_order_and_requests_are_remembered() {
    let model = ScriptedModel::new([Message::assistant("one"), Message::assistant("two")]).named("clerk");
    let handle = model.clone();
    assert_eq!(model.chat(ask("a")).await.unwrap().message, Message::assistant("one"));
    assert_eq!(handle.remaining(), Some(1));
    assert_eq!(handle.chat(ask("b")).await.unwrap().message, Message::assistant("two"));
    assert_eq!(handle.requests(), [ask("a"), ask("b")]);
    let error = model.chat(ask("c")).await.unwrap_err();
    assert!(matches!(error, ModelError::ScriptExhausted { asked: 3, .. }), "{error:?}");
    assert!(error.to_string().contains("`clerk`"), "{error}");
    assert!(!error.is_transient());
}

#[tokio::test]
async fn function_answers_and_may_fail() {
    let model = ScriptedModel::try_reacting(|request| match request.messages.last().and_then(Message::content) {
        Some(content) if content.text() == "ping" => Ok(Message::assistant("pong")),
        _ => Err(ModelError::Refused { model: "echo".to_owned(), reason: "only pings".to_owned() }),
    });
    assert_eq!(model.chat(ask("ping")).await.unwrap().message, Message::assistant("pong"));
    assert!(matches!(model.chat(ask("pang")).await, Err(ModelError::Refused { .. })));
    assert_eq!((model.call_count(), model.remaining()), (2, None));
}

#[tokio::test]
async fn answer_streams_word_by_word() {
    let model = ScriptedModel::new([Message::assistant("to be or not")]);
    let chunks: Vec<_> = model.stream(ask("?")).await.unwrap().map(Result::unwrap).collect().await;
    let (done, words) = chunks.split_last().unwrap();
    assert_eq!(words, ["to ", "be ", "or ", "not"].map(|word| ChatChunk::Text(word.to_owned())));
    assert!(matches!(done, ChatChunk::Done(response) if response.message == Message::assistant("to be or not")));
}

#[tokio::test]
async fn reasoning_and_calls_stream_like_a_providers() {
    let call = ToolCall { name: "look".to_owned(), args: json!({ "q": 1 }), id: "c1".to_owned() };
    let thought = Reasoning::new("scripted", "hm, hm").with_data(json!("sealed"));
    let message =
        Message::calls("wait", [call]).with_reasoning([thought, Reasoning::new("scripted", "").of_call("c1")]);
    let model = ScriptedModel::new([message.clone()]);
    let mut chunks: Vec<_> = model.stream(ask("?")).await.unwrap().map(Result::unwrap).collect().await;
    let done = chunks.pop().unwrap();
    let expected = [
        ChatChunk::Reasoning("hm, ".to_owned()),
        ChatChunk::Reasoning("hm".to_owned()),
        ChatChunk::Text("wait".to_owned()),
        ChatChunk::call_started("c1", "look"),
        ChatChunk::call_arguments("c1", "{\"q\":1}"),
    ];
    assert_eq!(chunks, expected);
    assert!(matches!(done, ChatChunk::Done(response) if response.message == message));
}

#[tokio::test]
async fn only_the_assistant_answers() {
    let error = ScriptedModel::new([Message::user("hello")]).chat(ask("?")).await.unwrap_err();
    assert!(matches!(error, ModelError::BadAnswer { .. }), "{error:?}");
}

#[tokio::test]
async fn model_without_requests_records_nothing() {
    let model = ScriptedModel::reacting(|_| Message::assistant("yes")).without_requests();
    for _ in 0..3 {
        model.chat(ask("?")).await.unwrap();
    }
    assert_eq!((model.call_count(), model.requests().len()), (3, 0));
}
