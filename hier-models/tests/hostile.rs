//! Misbehaving servers: redirects, oversized answers, empty answers and wrong formats.

mod support;

use std::collections::HashSet;
use std::time::Duration;

use futures_util::StreamExt;
use hier_agents::{ChatChunk, ChatModel, ChatRequest, FinishReason, Message, ModelError, ToolCall};
use hier_models::Model;
use serde_json::{Value, json};
use support::{Reply, Server, ask, failed, quick};

const KEY: &str = "sk-very-secret-1234";

fn choice(message: &Value, finish: &str) -> Reply {
    Reply::Whole(
        200,
        "",
        json!({ "model": "m", "choices": [{ "message": message, "finish_reason": finish }] }).to_string(),
    )
}

fn in_all_dialects(url: &str) -> [Model; 3] {
    [Model::at(url, "m"), Model::anthropic("m").url(url), Model::ollama("m").url(url)]
        .map(|model| model.key(KEY).retry(quick()))
}

/// The key and the conversation are sent only to the configured URL.
#[tokio::test]
async fn redirects_are_not_followed() {
    for (number, status) in [301, 302, 303, 307, 308].into_iter().enumerate() {
        let other = Server::start([]).await;
        let head = format!(
            "HTTP/1.1 {status} x\r\nlocation: {}/elsewhere\r\ncontent-length: 0\r\nconnection: close\r\n\r\n",
            other.url
        );
        let server = Server::start((0..2).map(|_| Reply::Raw(head.clone().into_bytes()))).await;
        let model = in_all_dialects(&server.url)[number % 3].clone();
        let error = model.chat(ask("a secret plan")).await.unwrap_err();
        assert!(matches!(error, ModelError::Refused { .. }), "{error:?}");
        assert!(error.to_string().contains("has moved to") && error.to_string().contains("/elsewhere"), "{error}");
        let Err(error) = model.stream(ask("a secret plan")).await else { panic!("it is refused") };
        assert!(matches!(error, ModelError::Refused { .. }), "{error:?}");
        assert!(other.asked().is_empty(), "nothing was sent there");
        assert_eq!(server.asked().len(), 2);
    }
}

/// Reading of an endless body stops: immediately for an error, at the limit for an answer.
#[tokio::test]
async fn answers_are_bounded_in_bytes() {
    let wrong = "HTTP/1.1 400 x\r\ncontent-type: application/json\r\n\r\n";
    let right = "HTTP/1.1 200 x\r\ncontent-type: application/json\r\n\r\n";
    let server = Server::start([Reply::Endless(wrong, 1 << 30), Reply::Endless(right, 1 << 30)]).await;
    let model = Model::at(&server.url, "m").retry(quick());
    let error = model.chat(ask("hello")).await.unwrap_err();
    assert!(matches!(error, ModelError::Refused { .. }) && error.to_string().len() < 3_000, "{error:?}");
    let error = model.chat(ask("hello")).await.unwrap_err();
    assert!(
        matches!(error, ModelError::BadAnswer { .. }) && error.to_string().contains("longer than 64 MB"),
        "{error:?}"
    );
}

/// Requests accept no compression, so that a small answer stays small.
#[tokio::test]
async fn compression_is_not_requested() {
    let server = Server::start([choice(&json!({ "content": "hi" }), "stop")]).await;
    Model::at(&server.url, "m").chat(ask("hello")).await.unwrap();
    assert!(!server.asked()[0].head.to_ascii_lowercase().contains("accept-encoding"), "{}", server.asked()[0].head);
}

#[tokio::test]
async fn large_events_are_read_in_linear_time() {
    let text = "x".repeat(8 << 20);
    let event = json!({ "choices": [{ "delta": { "content": text }, "finish_reason": "stop" }] });
    let body = format!("data: {event}\n\ndata: [DONE]\n\n");
    let head = format!("HTTP/1.1 200 x\r\ncontent-type: text/event-stream\r\ncontent-length: {}\r\n\r\n", body.len());
    let server = Server::start([Reply::Raw((head + &body).into_bytes())]).await;
    let stream = Model::at(&server.url, "m").stream(ask("hello")).await.unwrap();
    let pieces: Vec<_> = tokio::time::timeout(Duration::from_mins(1), stream.collect()).await.expect("it ends soon");
    let Some(Ok(ChatChunk::Done(answer))) = pieces.last() else { panic!("it ends") };
    assert_eq!(answer.text().len(), 8 << 20);
}

/// A client can write such a conversation: instructions, calls with invalid ids, and results in the wrong order. A loop
/// in a loop over them would not end within minutes.
#[tokio::test]
async fn conversation_of_many_calls_is_sent_in_linear_time() {
    const COUNT: usize = 60_000;
    let call = |number: usize| {
        let id = if number < COUNT / 2 { format!("call_{}", number + COUNT / 2) } else { format!("no id {number}") };
        ToolCall { name: "look".to_owned(), args: json!({}), id }
    };
    let instructions = (0..COUNT).map(|number| Message::system(format!("rule {number}")));
    let results = (0..COUNT).rev().map(|number| Message::tool(&call(number), format!("result {number}")));
    let calls = [Message::user("go"), Message::calls("", (0..COUNT).map(call))];
    let server = Server::start([choice(&json!({ "content": "done" }), "stop")]).await;
    let request = ChatRequest::new(instructions.chain(calls).chain(results).collect::<Vec<_>>());
    Model::at(&server.url, "m").chat(request).await.unwrap();
    let asked = server.asked();
    let messages = asked[0].body["messages"].as_array().expect("messages");
    let sent = messages.iter().filter(|message| message["role"] == "tool");
    let ids: HashSet<&str> = sent.clone().filter_map(|message| message["tool_call_id"].as_str()).collect();
    assert_eq!(ids.len(), COUNT);
    assert!(sent.zip(0..).all(|(message, number)| message["content"] == format!("result {number}")));
}

/// An answer without a message is an error with the server's text.
#[tokio::test]
async fn invalid_answers_are_reported() {
    let cases = [
        (json!({ "error": { "message": "No credits left", "code": 402 } }), "No credits left"),
        (json!({ "error": "out of memory" }), "out of memory"),
        (json!({}), "no choice"),
        (json!({ "choices": [] }), "no choice"),
        (json!({ "choices": [{ "message": null }] }), "neither text nor a tool call"),
        (json!({ "choices": [{ "message": { "content": 5 } }] }), "neither text nor a tool call"),
        (json!("hello"), "no choice"),
    ];
    for (body, received) in cases {
        let server =
            Server::start([Reply::Whole(200, "", body.to_string()), Reply::Whole(200, "", body.to_string())]).await;
        let model = Model::at(&server.url, "m").retry(quick());
        let error = model.chat(ask("hello")).await.unwrap_err();
        assert!(error.to_string().contains(received) && !error.is_transient(), "{body}: {error:?}");
        // In place of a stream, too.
        let Err(error) = model.stream(ask("hello")).await else { panic!("{body} is no answer") };
        assert!(error.to_string().contains(received), "{body}: {error:?}");
        assert_eq!(server.asked().len(), 2, "{body}: asked once each");
    }
}

#[tokio::test]
async fn unstreamed_answer_is_accepted() {
    let server = Server::start([choice(&json!({ "content": "hi" }), "stop")]).await;
    let stream = Model::at(&server.url, "m").retry(quick()).stream(ask("hello")).await.unwrap();
    let pieces: Vec<_> = stream.map(Result::unwrap).collect().await;
    assert_eq!(pieces[0], ChatChunk::Text("hi".to_owned()));
    assert!(matches!(&pieces[1], ChatChunk::Done(answer) if answer.finish == Some(FinishReason::Stop)), "{pieces:?}");
}

/// Empty and duplicate call ids are replaced, and the messages that are sent back later are valid.
#[tokio::test]
async fn invalid_calls_keep_the_conversation_valid() {
    let call =
        |id: &str, name: &str| json!({ "id": id, "type": "function", "function": { "name": name, "arguments": "{}" } });
    let odd = json!({ "content": null, "tool_calls": [call("", "multi_tool_use.parallel"), call("same", "look"), call("same", "look"), call("old", "look")] });
    let server = Server::start([choice(&odd, "tool_calls"), choice(&json!({ "content": "done" }), "stop")]).await;
    let old = ToolCall { name: "look".to_owned(), args: json!({}), id: "old".to_owned() };
    let model = Model::at(&server.url, "m");
    let so_far = [Message::user("go"), Message::calls("", [old.clone()]), Message::tool(&old, "seen")];
    let request = ChatRequest::new(so_far.clone());
    let answer = model.chat(request).await.unwrap();
    let calls = answer.message.tool_calls().to_vec();
    let mut ids: Vec<_> = calls.iter().map(|call| call.id.clone()).chain([old.id]).collect();
    ids.sort();
    ids.dedup();
    assert!(ids.len() == 5 && ids.iter().all(|id| !id.is_empty()), "{calls:?}");

    let results = calls.iter().map(|call| Message::tool(call, "ok"));
    let all: Vec<_> = so_far.into_iter().chain([answer.message.clone()]).chain(results).collect();
    model.chat(ChatRequest::new(all)).await.unwrap();
    let sent = &server.asked()[1].body["messages"];
    let sent_calls = sent[3]["tool_calls"].as_array().unwrap();
    let is_name =
        |text: &str| !text.is_empty() && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-');
    assert!(sent_calls.iter().all(|call| is_name(call["function"]["name"].as_str().unwrap())), "{sent:#}");
    for (call, result) in sent_calls.iter().zip(sent.as_array().unwrap().iter().skip(4)) {
        assert_eq!(call["id"], result["tool_call_id"]);
    }
}

/// System messages are sent first and without duplicates, wherever they occur in the conversation.
#[tokio::test]
async fn instructions_are_first_and_unique() {
    let answers = [
        choice(&json!({ "content": "ok" }), "stop"),
        Reply::Whole(
            200,
            "",
            json!({ "content": [{ "type": "text", "text": "ok" }], "stop_reason": "end_turn" }).to_string(),
        ),
    ];
    let server = Server::start(answers).await;
    let messages = [
        Message::user("one"),
        Message::system("Be kind."),
        Message::assistant("1"),
        Message::user("two"),
        Message::system("Be kind."),
    ];
    let request = ChatRequest::new(messages);
    Model::at(&server.url, "m").chat(request.clone()).await.unwrap();
    Model::anthropic("m").url(&server.url).key("k").chat(request).await.unwrap();
    let asked = server.asked();
    let roles: Vec<_> =
        asked[0].body["messages"].as_array().unwrap().iter().map(|m| m["role"].as_str().unwrap()).collect();
    assert_eq!(roles, ["system", "user", "assistant", "user"]);
    assert_eq!(asked[1].body["system"], "Be kind.");
}

/// Secrets of the URL, in every form in which a server may repeat them.
#[tokio::test]
async fn url_secrets_are_redacted() {
    let said = |text: &str| failed(400, "", text);
    let server = Server::start([
        said("the key QUERY SECRET is not known"),
        said("QUERY%20SECRET"),
        said("basic dXNlcjpQQVNTU0VDUkVU"),
    ])
    .await;
    let model = Model::at(format!("{}?api-version=1&key=QUERY%20SECRET", server.url), "m");
    for _ in 0..2 {
        let error = model.chat(ask("hello")).await.unwrap_err().to_string();
        assert!(!error.contains("SECRET") && error.contains('…'), "{error}");
    }
    let with_user = server.url.replace("http://", "http://user:PASSSECRET@");
    let error = Model::at(with_user, "m").chat(ask("hello")).await.unwrap_err().to_string();
    assert!(!error.contains("dXNlcjpQQVNTU0VDUkVU"), "{error}");
}

/// Control characters are escaped, since a terminal would interpret them.
#[tokio::test]
async fn control_characters_of_a_server_are_escaped() {
    let server = Server::start([failed(400, "", "m \u{1b}[31m red \u{202e} back")]).await;
    let error = Model::at(&server.url, "m").chat(ask("hello")).await.unwrap_err().to_string();
    assert!(error.contains("\\u{1b}[31m") && error.contains("\\u{202e}"), "{error}");
}

/// Errors about the length of a conversation are recognized, in the wording of each provider.
#[tokio::test]
async fn too_long_conversations_are_recognized() {
    let said = [
        json!({ "error": { "message": "This model's maximum context length is 8192 tokens.", "code": "context_length_exceeded" } }),
        json!({ "error": { "message": "Your input exceeds the limit", "code": "context_length_exceeded" } }),
        json!({ "type": "error", "error": { "type": "invalid_request_error", "message": "prompt is too long: 9 tokens > 8 maximum" } }),
        json!({ "error": { "code": 400, "message": "The input token count (9) exceeds the maximum number of tokens allowed (8).", "status": "INVALID_ARGUMENT" } }),
        json!({ "error": { "code": 400, "message": "the request exceeds the available context size", "type": "exceed_context_size_error" } }),
    ];
    for body in said {
        let server =
            Server::start([Reply::Whole(400, "", body.to_string()), Reply::Whole(200, "", body.to_string())]).await;
        for _ in 0..2 {
            let error = Model::at(&server.url, "m").retry(quick()).chat(ask("hello")).await.unwrap_err();
            assert!(matches!(error, ModelError::TooLong { .. }) && !error.is_transient(), "{body}: {error:?}");
        }
        assert_eq!(server.asked().len(), 2, "{body}: asked once each");
    }
    let server = Server::start([failed(400, "", "max_tokens is too large"), failed(503, "", "context window")]).await;
    let model = Model::at(&server.url, "m").retry(1);
    assert!(matches!(model.chat(ask("hello")).await, Err(ModelError::Refused { .. })));
    assert!(matches!(model.chat(ask("hello")).await, Err(ModelError::Unavailable { .. })));
}

#[tokio::test]
async fn invalid_key_is_reported() {
    let server = Server::start([choice(&json!({ "content": "hi" }), "stop")]).await;
    let error = Model::at(&server.url, "m").key("sk-1\nsk-2").retry(quick()).chat(ask("hello")).await.unwrap_err();
    assert!(matches!(error, ModelError::Refused { .. }) && error.to_string().contains("key"), "{error:?}");
    Model::at(&server.url, "m").key(" sk-1\n").chat(ask("hello")).await.unwrap();
    assert!(server.asked()[0].head.contains("Bearer sk-1\r\n"), "{}", server.asked()[0].head);
}

#[tokio::test]
async fn timeout_error_names_its_limit() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/v1", listener.local_addr().unwrap());
    let error = Model::at(url, "m").retry(1).timeout(Duration::from_millis(50)).chat(ask("hello")).await.unwrap_err();
    assert!(error.to_string().contains("`Model::timeout`") && error.to_string().contains("50ms"), "{error}");
}
