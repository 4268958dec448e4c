//! Providers that break their promises, and the next request in response.

use std::collections::HashMap;
use std::time::Duration;

use futures_util::StreamExt;
use hier_agents::prelude::*;
use hier_agents::{ChatChunk, ChatModel, ChatRequest, ChatResponse, Content, FinishReason, ModelError, Part, ToolCall};
use hier_models::Model;
use serde_json::{Value, json};

use crate::support::{Reply, Server, ask, failed, quick};

fn events(values: &[Value]) -> String {
    let event = |value: &Value| format!("data: {value}\n\n");
    values.iter().map(event).collect()
}

fn chat(delta: &Value, finish: Option<&str>) -> Value {
    json!({ "choices": [{ "delta": delta, "finish_reason": finish }] })
}

fn done() -> Reply {
    Reply::Events(events(&[chat(&json!({ "content": "done" }), Some("stop"))]) + "data: [DONE]\n\n")
}

fn whole(text: &str) -> Reply {
    let message = json!({ "content": text });
    Reply::Whole(200, "", json!({ "choices": [{ "message": message, "finish_reason": "stop" }] }).to_string())
}

/// Returns all chunks of a stream, and its answer.
async fn streamed(model: &Model) -> std::result::Result<(Vec<ChatChunk>, ChatResponse), ModelError> {
    let mut stream = model.stream(ask("hello")).await?;
    let mut pieces = Vec::new();
    while let Some(piece) = stream.next().await {
        match piece? {
            ChatChunk::Done(answer) => return Ok((pieces, answer)),
            piece => pieces.push(piece),
        }
    }
    panic!("a stream ends with its answer")
}

fn paused(block: &Value) -> Value {
    json!({ "content": [{ "type": "text", "text": "I search. " }, block], "stop_reason": "pause_turn", "usage": { "input_tokens": 5, "output_tokens": 3 } })
}

/// A pause is not an end: the partial answer is sent back, and the rest is read.
#[tokio::test]
async fn paused_answer_continues() {
    let block = json!({ "type": "server_tool_use", "id": "s1", "name": "web_search", "input": {} });
    let rest = json!({ "content": [{ "type": "text", "text": "Done." }], "stop_reason": "end_turn", "usage": { "input_tokens": 9, "output_tokens": 1 } });
    let first = paused(&block);
    let start = json!({ "type": "message_start", "message": { "usage": { "input_tokens": 5, "output_tokens": 3 } } });
    let begin =
        |index: u8, block: &Value| json!({ "type": "content_block_start", "index": index, "content_block": block });
    let end = |reason: &str| json!({ "type": "message_delta", "delta": { "stop_reason": reason } });
    let stop = json!({ "type": "message_stop" });
    let text = |text: &str| json!({ "type": "text", "text": text });
    let first_stream =
        events(&[start.clone(), begin(0, &text("I search. ")), begin(1, &block), end("pause_turn"), stop.clone()]);
    let rest_stream = events(&[
        json!({ "type": "message_start", "message": { "usage": { "input_tokens": 9, "output_tokens": 1 } } }),
        begin(0, &text("Done.")),
        end("end_turn"),
        stop,
    ]);
    let replies = [
        Reply::Whole(200, "", first.to_string()),
        Reply::Whole(200, "", rest.to_string()),
        Reply::Events(first_stream.clone()),
        Reply::Events(rest_stream),
        Reply::Events(first_stream),
        Reply::Whole(200, "", rest.to_string()),
    ];
    let server = Server::start(replies).await;
    let model = Model::anthropic("m").url(&server.url).key("k").retry(1);
    let mut answers = vec![model.chat(ask("hello")).await.unwrap()];
    answers.push(streamed(&model).await.unwrap().1);
    answers.push(streamed(&model).await.unwrap().1);
    for (number, answer) in answers.iter().enumerate() {
        assert_eq!((&*answer.text(), &answer.finish), ("I search. Done.", &Some(FinishReason::Stop)));
        let usage = answer.message.usage().unwrap();
        assert_eq!((usage.input_tokens, usage.output_tokens), (14, 4));
        let sent = &server.asked()[2 * number + 1].body["messages"];
        assert_eq!(sent[1]["role"], "assistant");
        assert_eq!(sent[1]["content"], first["content"], "{sent:#}");
    }
}

/// A model that pauses again and again ends with a partial answer.
#[tokio::test]
async fn pauses_are_bounded() {
    let block = json!({ "type": "server_tool_use", "id": "s1", "name": "web_search", "input": {} });
    let server = Server::start((0..40).map(|_| Reply::Whole(200, "", paused(&block).to_string()))).await;
    let answer = Model::anthropic("m").url(&server.url).key("k").retry(1).chat(ask("hello")).await.unwrap();
    assert_eq!(answer.finish, Some(FinishReason::Other("pause_turn".to_owned())));
    assert_eq!(server.asked().len(), 17);
}

/// A malformed call is requested again, with the provider's comment on it.
#[tokio::test]
async fn unreadable_call_is_requested_again() {
    let malformed = json!({ "candidates": [{ "content": {}, "finishReason": "MALFORMED_FUNCTION_CALL", "finishMessage": "print(1)" }] });
    let good = json!({ "candidates": [{ "content": { "parts": [{ "text": "done" }] }, "finishReason": "STOP" }] });
    let (bad, good) = (events(&[malformed]), events(&[good]));
    let all = [&bad, &bad, &good, &bad, &bad, &bad].map(|events| Reply::Events(events.clone()));
    let server = Server::start(all).await;
    let model = Model::gemini("gemini-3-pro").url(&server.url).key("k").retry(quick());
    let (_, answer) = streamed(&model).await.unwrap();
    assert_eq!(answer.text(), "done");
    let said = |number: usize| server.asked()[number].body["contents"].to_string();
    assert!(!said(0).contains("print(1)") && said(1).contains("print(1)") && said(2) == said(1), "{}", said(2));
    let Err(error) = streamed(&model).await else { panic!("three times are enough") };
    assert!(matches!(error, ModelError::BadAnswer { .. }) && error.to_string().contains("print(1)"), "{error:?}");
}

/// A stream that stalls or breaks before it has sent anything but thoughts is requested again. Later it is an error.
#[tokio::test]
async fn thoughts_do_not_prevent_a_retry() {
    let thought = events(&[chat(&json!({ "reasoning_content": "hm" }), None)]);
    let text = events(&[chat(&json!({ "content": "He" }), None)]);
    let replies = [Reply::Stalled(thought.clone()), Reply::CutStream(thought), done(), Reply::Stalled(text)];
    let server = Server::start(replies).await;
    let model = Model::at(&server.url, "m").retry(quick()).idle_timeout(Duration::from_millis(300));
    let (pieces, answer) = streamed(&model).await.unwrap();
    let thought = || ChatChunk::Reasoning("hm".to_owned());
    assert_eq!(pieces, [thought(), thought(), ChatChunk::Text("done".to_owned())]);
    assert!(answer.message.reasoning().is_empty(), "the thoughts of an attempt that failed are not part of the answer");
    let Err(error) = streamed(&model).await else { panic!("it stalls after a text") };
    assert!(
        error.is_transient() && error.to_string().contains("300ms, the limit set by `Model::idle_timeout`"),
        "{error}"
    );
    assert_eq!(server.asked().len(), 4);
}

/// Waiting does not restore an exhausted quota.
#[tokio::test]
async fn exhausted_quota_is_not_retried() {
    let body = json!({ "error": { "message": "You exceeded your quota", "code": "insufficient_quota" } });
    let server = Server::start([Reply::Whole(429, "", body.to_string()), whole("never")]).await;
    let error = Model::at(&server.url, "m").retry(quick()).chat(ask("hello")).await.unwrap_err();
    assert!(matches!(error, ModelError::Refused { .. }), "{error:?}");
    assert_eq!(server.asked().len(), 1);
}

/// The delay that a provider requests is respected in any field.
#[tokio::test]
async fn requested_delay_is_respected() {
    let info = json!({ "error": { "message": "slow", "details": [{ "retryDelay": "0.3s" }] } }).to_string();
    let replies = [
        Reply::Whole(429, "", info),
        whole("a"),
        failed(429, "retry-after-ms: 300\r\n", "slow"),
        whole("b"),
        failed(429, "x-ratelimit-reset-tokens: 300ms\r\n", "slow"),
        whole("c"),
    ];
    let server = Server::start(replies).await;
    let model = Model::at(&server.url, "m").retry(quick());
    for expected in ["a", "b", "c"] {
        let start = std::time::Instant::now();
        assert_eq!(model.chat(ask("hello")).await.unwrap().text(), expected);
        assert!(start.elapsed() >= Duration::from_millis(300), "{expected}: {:?}", start.elapsed());
    }
}

fn with_image() -> ChatRequest {
    let parts = [Part::text("What is it?"), Part::image_data("image/png", "aGk=")];
    ChatRequest::new([Message::user(Content::parts(parts))])
}

/// A file that a provider refuses is omitted, with a note for the model.
#[tokio::test]
async fn refused_file_is_omitted_once() {
    let replies = [
        failed(400, "", "Invalid base64 data"),
        whole("I cannot see it."),
        failed(400, "", "no such model"),
        failed(400, "", "image is broken"),
        failed(400, "", "image is broken"),
    ];
    let server = Server::start(replies).await;
    let model = Model::at(&server.url, "m").retry(quick());
    assert_eq!(model.chat(with_image()).await.unwrap().text(), "I cannot see it.");
    let asked = server.asked();
    let content = &asked[1].body["messages"][0]["content"];
    assert_eq!(content[0], json!({ "type": "text", "text": "What is it?" }));
    assert!(content[1]["text"].as_str().unwrap().contains("Invalid base64 data"), "{content}");
    // Errors about something else, and repeated ones, are returned.
    assert!(model.chat(with_image()).await.is_err());
    assert_eq!(server.asked().len(), 3);
    let error = model.chat(with_image()).await.unwrap_err();
    assert!(matches!(error, ModelError::Refused { .. }), "{error:?}");
    assert_eq!(server.asked().len(), 5);
}

/// A request that exceeds the server's limit in bytes is sent again without its files. Without files, it is too long.
#[tokio::test]
async fn request_with_files_above_the_size_limit_is_sent_without_them() {
    let too_large = || failed(413, "", "Payload Too Large");
    let server = Server::start([too_large(), whole("I cannot see it."), too_large(), too_large(), too_large()]).await;
    let model = Model::at(&server.url, "m").retry(quick());
    assert_eq!(model.chat(with_image()).await.unwrap().text(), "I cannot see it.");
    let content = server.asked()[1].body["messages"][0]["content"].clone();
    assert!(content[1]["text"].as_str().unwrap().contains("Payload Too Large"), "{content}");
    let as_gemini = r#"{"error":{"code":400,"message":"Request payload size exceeds the limit: 20971520 bytes."}}"#;
    let gemini = Server::start([failed(400, "", as_gemini), whole("I cannot see it.")]).await;
    let answer = Model::at(&gemini.url, "m").retry(quick()).chat(with_image()).await;
    assert_eq!(answer.unwrap().text(), "I cannot see it.");
    for (request, count) in [(with_image(), 4), (ask("hello"), 5)] {
        let error = model.chat(request).await.unwrap_err();
        assert!(matches!(error, ModelError::TooLong { .. }), "{error:?}");
        assert_eq!(server.asked().len(), count);
    }
}

/// A 413 response counts as too long, as do errors with other wordings of it.
#[tokio::test]
async fn other_wordings_of_too_long_are_recognized() {
    let cases = [
        (
            413,
            json!({ "type": "error", "error": { "type": "request_too_large", "message": "Request exceeds the maximum size" } }),
        ),
        (
            400,
            json!({ "code": "Client specified an invalid argument", "error": "This model's maximum prompt length is 9 but the request contains 10 tokens." }),
        ),
    ];
    for (status, body) in cases {
        let server = Server::start([Reply::Whole(status, "", body.to_string())]).await;
        let error = Model::at(&server.url, "m").retry(quick()).chat(ask("hello")).await.unwrap_err();
        assert!(matches!(error, ModelError::TooLong { .. }), "{body}: {error:?}");
    }
}

/// An empty answer reports its reason and its cost.
#[tokio::test]
async fn empty_answer_has_finish_reason_and_usage() {
    for (reason, finish) in [("length", FinishReason::Length), ("content_filter", FinishReason::ContentFilter)] {
        let choice = json!({ "message": { "content": "", "reasoning_content": "hm" }, "finish_reason": reason });
        let body = json!({ "choices": [choice], "usage": { "prompt_tokens": 5, "completion_tokens": 9 } });
        let server = Server::start([Reply::Whole(200, "", body.to_string())]).await;
        let answer = Model::at(&server.url, "m").retry(quick()).chat(ask("hello")).await.unwrap();
        assert_eq!((&*answer.text(), answer.finish), ("", Some(finish)));
        assert_eq!(answer.message.usage().map(hier_agents::Usage::total), Some(14));
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
struct Plan {
    count: u32,
    notes: HashMap<String, String>,
}

#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
struct Planning {
    #[state(flatten)]
    base: BaseState,
    plan: Option<Plan>,
}

graph! {
    Planner<Planning> = Agent { answer: plan }
}

/// Anthropic's schemas cannot describe maps, so an answer with a map is given through a tool, without losses.
#[tokio::test]
async fn map_is_answered_by_a_tool() {
    let plan = json!({ "count": 2, "notes": { "a": "b" } });
    let call = json!({ "type": "tool_use", "id": "1", "name": "final_answer", "input": plan });
    let answer = json!({ "content": [call], "stop_reason": "tool_use" });
    let server = Server::start([Reply::Whole(200, "", answer.to_string())]).await;
    let context = BaseContext::new(Model::anthropic("claude-sonnet-4-5").url(&server.url).key("k").retry(1));
    let out = Planner::compile().invoke(Message::user("Plan.")).context(context).await.unwrap();
    let notes = HashMap::from([("a".to_owned(), "b".to_owned())]);
    assert_eq!(out.state().plan, Some(Plan { count: 2, notes }));
    let body = &server.asked()[0].body;
    assert!(body.get("output_config").is_none(), "{body:#}");
    let notes = &body["tools"][0]["input_schema"]["properties"]["notes"];
    assert_eq!(notes["additionalProperties"]["type"], "string", "{body:#}");
}

/// The chat templates of some models, such as Qwen 3.5 and Gemma, refuse a second system message, and adjacent messages
/// of the user.
#[tokio::test]
async fn chat_completions_have_one_system_message_and_alternating_roles() {
    let server = Server::start([whole("a")]).await;
    let photo = || Content::parts([Part::image("https://example.org/1.png")]);
    let photo_call = ToolCall::new("look", json!({})).with_id("c");
    let messages = [
        Message::system("Be kind."),
        Message::user("one"),
        Message::user("two"),
        Message::user(photo()),
        Message::system("Be brief."),
        Message::calls("", [photo_call.clone()]),
        Message::tool(&photo_call, photo()),
        Message::user("and?"),
    ];
    Model::at(&server.url, "m").chat(ChatRequest::new(messages.clone())).await.unwrap();
    let sent = &server.asked()[0].body["messages"];
    let image = json!({ "type": "image_url", "image_url": { "url": "https://example.org/1.png" } });
    let text = |text: &str| json!({ "type": "text", "text": text });
    assert_eq!(sent[0], json!({ "role": "system", "content": "Be kind.\n\nBe brief." }));
    assert_eq!(sent[1], json!({ "role": "user", "content": [text("one\n\ntwo"), image] }));
    let roles: Vec<_> = sent.as_array().unwrap().iter().map(|message| message["role"].as_str().unwrap()).collect();
    assert_eq!(roles, ["system", "user", "assistant", "tool", "user"]);
    assert_eq!(sent[4]["content"], json!([image, text("and?")]));
}
