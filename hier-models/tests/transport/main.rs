//! Requests, retries and errors, against a server on the loopback.

#[cfg(feature = "bedrock")]
mod bedrock;
mod embeddings;
mod hosted;
mod killed;
mod long;
mod odd;
mod own_tools;
mod providers;
mod shapes;
#[path = "../support/mod.rs"]
mod support;
mod tool_search;
mod turns;

use std::time::Duration;

use futures_util::StreamExt;
use hier_agents::{
    ChatChunk, ChatModel, ChatRequest, Content, Message, ModelError, ModelOptions, OutputSpec, Part, ToolCall,
    ToolSpec, Usage,
};
use hier_models::Model;
use serde_json::{Value, json};
use support::{Reply, Server, ask, failed, quick};

const KEY: &str = "sk-very-secret-1234";

fn said(text: &str) -> Reply {
    let body = json!({
        "id": "x", "object": "chat.completion", "model": "gpt-4o-2024",
        "choices": [{ "index": 0, "finish_reason": "stop", "message": { "role": "assistant", "content": text } }],
        "usage": { "prompt_tokens": 5, "completion_tokens": 2, "total_tokens": 7 },
    });
    Reply::Whole(200, "", body.to_string())
}

fn event(delta: &Value) -> String {
    format!("data: {}\n\n", json!({ "id": "x", "model": "m", "choices": [{ "index": 0, "delta": delta }] }))
}

#[tokio::test]
async fn temporary_failure_is_retried() {
    let server =
        Server::start([failed(429, "retry-after: 0\r\n", "slow down"), failed(503, "", "overloaded"), said("at last")])
            .await;
    let model = Model::at(&server.url, "m").retry(quick());
    let answer = model.chat(ask("hello")).await.unwrap();
    assert_eq!(answer.message, Message::assistant("at last").with_usage(Usage::new(5, 2)));
    assert_eq!(answer.model.as_deref(), Some("gpt-4o-2024"));
    assert_eq!(server.asked().len(), 3);
}

#[tokio::test]
async fn truncated_answer_is_retried() {
    let server = Server::start([Reply::CutBody(r#"{"id": "x", "#.to_owned()), said("whole")]).await;
    let model = Model::at(&server.url, "m").retry(quick());
    assert_eq!(model.chat(ask("hello")).await.unwrap().message.content().unwrap().text(), "whole");
    assert_eq!(server.asked().len(), 2);
}

#[tokio::test]
async fn truncated_ollama_stream_fails() {
    let line = |text: &str, done: bool| {
        let counts = json!({ "done": done, "prompt_eval_count": 5, "eval_count": 2 });
        let mut line = json!({ "model": "m", "message": { "role": "assistant", "content": text }, "done": false });
        if done {
            line.as_object_mut().unwrap().extend(counts.as_object().unwrap().clone());
        }
        format!("{line}\n")
    };
    let cut = Reply::Lines(line("Hel", false));
    let whole = Reply::Lines(line("Hel", false) + &line("lo", false) + &line("", true));
    let server = Server::start([cut, whole]).await;
    let url = server.url.trim_end_matches("v1").to_owned();
    let model = Model::ollama("m").url(url).retry(quick());
    let mut stream = model.stream(ask("hello")).await.unwrap();
    assert_eq!(stream.next().await.unwrap().unwrap(), ChatChunk::Text("Hel".to_owned()));
    let error = stream.next().await.unwrap().unwrap_err();
    assert!(matches!(error, ModelError::Unavailable { .. }), "{error:?}");
    let mut stream = model.stream(ask("hello")).await.unwrap();
    let mut last = None;
    while let Some(piece) = stream.next().await {
        last = Some(piece.unwrap());
    }
    let Some(ChatChunk::Done(answer)) = last else { panic!("it ends: {last:?}") };
    assert_eq!(answer.message.content().unwrap().text(), "Hello");
}

/// An Ollama server and its model both receive the schema. Images that it could not fetch are omitted.
#[tokio::test]
async fn schemas_and_images_in_other_dialects() {
    let body = json!({ "model": "m", "message": { "role": "assistant", "content": "{\"a\": 1}" }, "done": true });
    let reply = || Reply::Whole(200, "", body.to_string());
    let server = Server::start([reply(), reply()]).await;
    let url = server.url.trim_end_matches("v1").to_owned();
    let schema = json!({ "type": "object", "properties": { "a": { "type": "integer" } } });
    let output = Some(OutputSpec { name: "shape".to_owned(), schema: schema.clone() });
    let model = Model::ollama("m").url(url);
    model.chat(ask("hello").output(output)).await.unwrap();
    let asked = &server.asked()[0].body;
    assert_eq!(asked["format"], schema);
    let last = asked["messages"].as_array().and_then(|all| all.last()).unwrap();
    assert!(last["content"].as_str().unwrap().contains(&schema.to_string()), "{last}");

    let image = Part::Image { url: "https://papers.example/w2.png".to_owned() };
    let request = ChatRequest::new([Message::user(Content::Parts(vec![image]))]);
    model.chat(request.clone()).await.unwrap();
    let sent = server.asked()[1].body["messages"][0].clone();
    assert!(sent.get("images").is_none() && sent["content"].as_str().unwrap().contains("base64"), "{sent}");

    let answer = json!({ "model": "m", "content": [{ "type": "text", "text": "W-2" }], "stop_reason": "end_turn" });
    let server = Server::start([Reply::Whole(200, "", answer.to_string())]).await;
    Model::anthropic("m").url(&server.url).key("k").chat(request).await.unwrap();
    let source = &server.asked()[0].body["messages"][0]["content"][0]["source"];
    assert_eq!(*source, json!({ "type": "url", "url": "https://papers.example/w2.png" }));
}

#[tokio::test]
async fn attempts_are_bounded_and_report_the_last_error() {
    let server = Server::start([failed(500, "", "one"), Reply::Nothing, failed(500, "", "three")]).await;
    let error = Model::at(&server.url, "m").retry(quick()).chat(ask("hello")).await.unwrap_err();
    assert!(error.is_transient(), "{error:?}");
    assert_eq!(error.to_string(), "the model `m` is unavailable: HTTP status 500 Internal Server Error: three");
    assert_eq!(server.asked().len(), 3);
}

#[tokio::test]
async fn permanent_failure_is_not_retried() {
    let server = Server::start([failed(400, "", "no such model"), said("never")]).await;
    let error = Model::at(&server.url, "m").retry(quick()).chat(ask("hello")).await.unwrap_err();
    assert!(matches!(error, ModelError::Refused { .. }), "{error:?}");
    assert_eq!(error.to_string(), "the request to the model `m` failed: HTTP status 400 Bad Request: no such model");
    assert_eq!(server.asked().len(), 1);
}

#[tokio::test]
async fn unreachable_server_is_reported_with_its_cause() {
    let free = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let error = Model::at(format!("http://{free}/v1"), "m").retry(quick()).chat(ask("hello")).await.unwrap_err();
    assert!(matches!(error, ModelError::Unavailable { .. }), "{error:?}");
    assert!(error.to_string().contains("refused"), "{error}");
}

#[tokio::test]
async fn meaningless_answer_is_reported() {
    let server = Server::start([Reply::Whole(200, "", "<html>".to_owned())]).await;
    let error = Model::at(&server.url, "m").chat(ask("hello")).await.unwrap_err();
    assert!(matches!(error, ModelError::BadAnswer { .. }), "{error:?}");
}

#[tokio::test]
async fn slow_answer_times_out() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/v1", listener.local_addr().unwrap());
    let model = Model::at(url, "m").retry(1).timeout(Duration::from_millis(50));
    let error = model.chat(ask("hello")).await.unwrap_err();
    assert!(matches!(error, ModelError::Unavailable { .. }), "{error:?}");
}

#[tokio::test]
async fn every_part_of_a_request_is_sent() {
    let server = Server::start([said(r#"{"ok":true}"#)]).await;
    let call = |id: &str| ToolCall { name: "look".to_owned(), args: json!({ "q": "ü" }), id: id.to_owned() };
    let tool =
        ToolSpec { name: "look".to_owned(), description: "Looks.".to_owned(), parameters: json!({ "type": "object" }) };
    let output = OutputSpec { name: "shape".to_owned(), schema: json!({ "type": "object", "properties": {} }) };
    let messages = [
        Message::system("Be kind."),
        Message::user(Content::parts([Part::text("see"), Part::image_data("image/png", "aGk=")])),
        Message::calls("", [call("a"), call("b")]),
        Message::user("between"),
        Message::tool(&call("b"), "found b"),
        Message::tool(&call("zz"), "lost"),
    ];
    let options = ModelOptions::new().temperature(0.5).max_tokens(99);
    let request = ChatRequest::new(messages).tools([tool]).output(output).options(options);
    Model::at(&server.url, "m").key(KEY).chat(request).await.unwrap();
    let asked = &server.asked()[0];
    assert!(asked.head.starts_with("POST /v1/chat/completions"), "{}", asked.head);
    assert!(asked.head.contains(&format!("Bearer {KEY}")), "{}", asked.head);
    let body = &asked.body;
    assert_eq!((&body["model"], &body["temperature"], &body["max_tokens"]), (&json!("m"), &json!(0.5), &json!(99)));
    assert_eq!(body["tools"][0]["function"]["name"], "look");
    assert_eq!(body["response_format"]["json_schema"]["name"], "shape");
    let received: Vec<_> =
        body["messages"].as_array().unwrap().iter().map(|m| (m["role"].as_str().unwrap(), m)).collect();
    let roles: Vec<_> = received.iter().map(|(role, _)| *role).collect();
    assert_eq!(roles, ["system", "user", "assistant", "tool", "tool", "user"], "{body:#}");
    assert_eq!(received[1].1["content"][1]["image_url"]["url"], "data:image/png;base64,aGk=");
    assert_eq!(received[2].1["tool_calls"][1]["function"]["arguments"], r#"{"q":"ü"}"#);
    assert_eq!(
        (&received[3].1["tool_call_id"], &received[3].1["content"]),
        (&json!("a"), &json!("No result: this call was not made, or has not ended."))
    );
    assert_eq!((&received[4].1["tool_call_id"], &received[4].1["content"]), (&json!("b"), &json!("found b")));
    assert_eq!(received[5].1["content"], "between\n\nThe result of a tool call: lost");
}

#[tokio::test]
async fn request_without_a_key_has_no_key_header() {
    let server = Server::start([said("hi"), said("hi"), said("hi")]).await;
    Model::at(format!("{}?tenant=a/b", server.url), "m").chat(ask("hello")).await.unwrap();
    Model::at(format!("{}/?tenant=a/b", server.url), "m").key(KEY).chat(ask("hello")).await.unwrap();
    let with: Vec<_> =
        server.asked().iter().map(|asked| asked.head.to_ascii_lowercase().contains("authorization")).collect();
    assert_eq!(with, [false, true]);
    for asked in server.asked() {
        assert!(asked.head.starts_with("POST /v1/chat/completions?tenant=a/b "), "{}", asked.head);
        assert!(asked.head.to_ascii_lowercase().contains("content-type: application/json"), "{}", asked.head);
    }
}

#[tokio::test]
async fn stream_is_retried_until_its_first_chunk() {
    let hello = event(&json!({ "content": "Hel" })) + &event(&json!({ "content": "lo" }));
    let server = Server::start([failed(503, "", "busy"), Reply::CutStream(hello)]).await;
    let mut stream = Model::at(&server.url, "m").retry(quick()).stream(ask("hello")).await.unwrap();
    assert_eq!(stream.next().await.unwrap().unwrap(), ChatChunk::Text("Hel".to_owned()));
    assert_eq!(stream.next().await.unwrap().unwrap(), ChatChunk::Text("lo".to_owned()));
    let error = stream.next().await.unwrap().unwrap_err();
    assert!(matches!(error, ModelError::Unavailable { .. }), "the stream was cut off: {error:?}");
    assert!(stream.next().await.is_none());
    assert_eq!(server.asked().len(), 2);
}

#[tokio::test]
async fn answer_of_another_shape_can_be_corrected() {
    let server = Server::start([said("I would rather not.")]).await;
    let output = Some(OutputSpec { name: "shape".to_owned(), schema: json!({ "type": "object" }) });
    let answer = Model::at(&server.url, "m").chat(ask("hello").output(output)).await.unwrap();
    assert_eq!(answer.text(), "I would rather not.");
    assert!(answer.json::<Value>().is_err());
}

/// A dialect: its model at a URL, the paths of complete and of streamed answers, and the header with the key.
type Spoken = (fn(&str) -> Model, [&'static str; 2], String);

/// Each dialect has its path for complete and for streamed answers, in front of the URL's own query, and its header for
/// the key.
#[tokio::test]
async fn each_dialect_has_its_path_and_its_key() {
    let cases: [Spoken; 5] = [
        (|url| Model::openai("m").url(url), ["chat/completions?a=b"; 2], format!("authorization: Bearer {KEY}")),
        (|url| Model::responses("m").url(url), ["responses?a=b"; 2], format!("authorization: Bearer {KEY}")),
        (|url| Model::anthropic("m").url(url), ["messages?a=b"; 2], format!("x-api-key: {KEY}")),
        (|url| Model::ollama("m").url(url), ["api/chat?a=b"; 2], format!("authorization: Bearer {KEY}")),
        (
            |url| Model::gemini("odd/name?#").url(url),
            ["odd/name%3F%23:generateContent?a=b", "odd/name%3F%23:streamGenerateContent?a=b&alt=sse"],
            format!("x-goog-api-key: {KEY}"),
        ),
    ];
    for (model, paths, header) in cases {
        let server = Server::start([failed(400, "", "no"), failed(400, "", "no")]).await;
        let model = model(&format!("{}?a=b", server.url)).key(KEY);
        model.chat(ask("hello")).await.unwrap_err();
        assert!(model.stream(ask("hello")).await.is_err());
        for (asked, path) in server.asked().iter().zip(paths) {
            assert!(asked.head.starts_with(&format!("POST /v1/{path} ")), "{}", asked.head);
            assert!(asked.head.contains(&header), "{}", asked.head);
        }
    }
}

/// A header instructs the newest models of Anthropic how to treat thoughts of another beginning. Other models do not know
/// it.
#[tokio::test]
async fn only_models_that_bind_thoughts_get_the_header() {
    for (name, received) in [("claude-opus-5", false), ("claude-opus-5-5", true)] {
        let server = Server::start([failed(400, "", "no")]).await;
        Model::anthropic(name).url(&server.url).key(KEY).chat(ask("hello")).await.unwrap_err();
        assert_eq!(server.asked()[0].head.contains("anthropic-beta: thinking-binding-controls"), received, "{name}");
    }
}

#[cfg(not(feature = "bedrock"))]
#[test]
fn missing_feature_is_named() {
    for text in ["bedrock:m", "bedrock+https://bedrock.example#m"] {
        let error = Model::parse(text).unwrap_err().to_string();
        assert!(error.contains("enable the feature `bedrock`"), "{error}");
    }
}

#[test]
fn model_texts_are_parsed() {
    let model = Model::parse("ollama:qwen3:4b").unwrap();
    assert_eq!((model.provider(), model.name()), ("ollama", "qwen3:4b"));
    let model = Model::parse("http://localhost:8080/v1#smol").unwrap();
    assert_eq!((model.provider(), model.name()), ("openai", "smol"));
    assert_eq!(Model::parse("http://localhost:8080/v1").unwrap().name(), "default");
    for (text, provider, name) in [
        ("gemini:gemini-3-pro", "gcp.gemini", "gemini-3-pro"),
        ("responses:gpt-5", "openai", "gpt-5"),
        ("responses+https://proxy.example/v1#gpt-5", "openai", "gpt-5"),
        ("anthropic+http://localhost:8080/v1#c", "anthropic", "c"),
    ] {
        let model = Model::parse(text).unwrap();
        assert_eq!((model.provider(), model.name()), (provider, name), "{text}");
    }
    for (text, received) in [
        ("antropic+http://localhost#m", "unknown provider `antropic`; did you mean `anthropic`?"),
        ("ftp://localhost#m", "a URL must start with `http://` or `https://`"),
        ("http://localhost#", "add the model's name after `#`"),
        ("gpt-4o", "no provider: write"),
        ("opnai:gpt-4o", "unknown provider `opnai`; did you mean `openai`?"),
        ("openai:", "add the model's name after `openai:`"),
        ("", "no provider: write"),
    ] {
        let error = Model::parse(text).unwrap_err().to_string();
        assert!(error.contains(received), "{error}");
    }
}
