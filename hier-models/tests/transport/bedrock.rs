//! Amazon Bedrock: answers, streams of frames, and errors.

mod signed;

use aws_smithy_eventstream::frame::write_message_to;
use aws_smithy_types::event_stream::{Header, HeaderValue, Message as Frame};
use futures_util::StreamExt;
use hier_agents::{ChatChunk, ChatModel, ChatRequest, Message, ModelError, ToolSpec};
use hier_models::Model;
use hier_models::aws_credential_types::Credentials;
use serde_json::{Value, json};

use super::support::{Reply, Server, ask, quick};

const CLAUDE: &str = "us.anthropic.claude-sonnet-4-5-20250929-v1:0";
const PROFILE: &str = "arn:aws:bedrock:eu-west-3:123456789012:application-inference-profile/abc123";
const SECRET: &str = "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY";
const SESSION: &str = "IQoJb3JpZ2luX2VjEXAMPLETOKEN";

fn credentials() -> Credentials {
    Credentials::new("AKIDEXAMPLE", SECRET, Some(SESSION.to_owned()), None, "test")
}

fn yes() -> Reply {
    let message = json!({ "role": "assistant", "content": [{ "text": "yes" }] });
    let answer = json!({ "output": { "message": message }, "stopReason": "end_turn", "metrics": { "latencyMs": 1 } });
    Reply::Whole(200, "", answer.to_string())
}

fn failed(status: u16, message: &str) -> Reply {
    Reply::Whole(status, "", json!({ "message": message }).to_string())
}

fn frame(kind: &'static str, name: &str, payload: &Value) -> Vec<u8> {
    let header = |name: &str, value: &str| Header::new(name.to_owned(), HeaderValue::String(value.to_owned().into()));
    let headers = vec![header(&format!(":{kind}-type"), name), header(":message-type", kind)];
    let mut bytes = Vec::new();
    write_message_to(&Frame::new_from_parts(headers, payload.to_string()), &mut bytes).unwrap();
    bytes
}

fn text(text: &str) -> Vec<u8> {
    frame("event", "contentBlockDelta", &json!({ "contentBlockIndex": 0, "delta": { "text": text } }))
}

fn end() -> Vec<u8> {
    let usage =
        json!({ "usage": { "inputTokens": 5, "outputTokens": 2, "totalTokens": 7 }, "metrics": { "latencyMs": 1 } });
    [frame("event", "messageStop", &json!({ "stopReason": "end_turn" })), frame("event", "metadata", &usage)].concat()
}

/// A stream of these bytes, which ends with the connection.
fn stream(bytes: &[u8]) -> Reply {
    let head = b"HTTP/1.1 200 OK\r\ncontent-type: application/vnd.amazon.eventstream\r\nconnection: close\r\n\r\n";
    Reply::Raw([head, bytes].concat())
}

#[tokio::test]
async fn errors_of_bedrock_are_classified() {
    let model = |server: &Server| Model::bedrock(PROFILE).url(&server.url).aws_credentials(credentials());
    for (status, message, retried) in [
        (429, "Too many requests, please wait before trying again.", true),
        (429, "Model is not ready for inference. Wait and try your request again.", true),
        (408, "The model timed out.", true),
        (424, "The system encountered an unexpected error during processing. Try your request again.", true),
        (503, "Bedrock is unable to process your request.", true),
        (403, "You don't have access to the model with the specified model ID.", false),
        (404, "Model not found", false),
        (400, "The provided model identifier is invalid.", false),
    ] {
        let server = Server::start([failed(status, message), yes()]).await;
        let answer = model(&server).retry(quick()).chat(ask("hello")).await;
        match answer {
            Ok(_) => assert!(retried, "{message}"),
            Err(error) => {
                assert!(!retried && matches!(error, ModelError::Refused { .. }), "{error:?}");
                assert!(error.to_string().contains(message), "{error}");
            }
        }
    }
    for message in [
        "Input is too long for requested model.",
        "The model returned the following errors: prompt is too long: 200049 tokens > 200000 maximum",
        "The model returned the following errors: too many total text bytes: 10000000 > 9000000",
    ] {
        let server = Server::start([failed(400, message)]).await;
        let error = model(&server).chat(ask("hello")).await.unwrap_err();
        assert!(matches!(error, ModelError::TooLong { .. }), "{error:?}");
    }
    let body = json!({ "Message": "User: arn:aws:iam::1:user/a is not authorized" }).to_string();
    let server = Server::start([Reply::Whole(403, "", body)]).await;
    let error = model(&server).chat(ask("hello")).await.unwrap_err().to_string();
    assert!(error.ends_with("HTTP status 403 Forbidden: User: arn:aws:iam::1:user/a is not authorized"), "{error}");
}

/// Before the first text, an exception, a damaged frame and an early end are repeated. Afterwards they are errors.
#[tokio::test]
async fn broken_streams_are_repeated_until_the_first_text() {
    let thrown = || frame("exception", "throttlingException", &json!({ "message": "slow down" }));
    let mut damaged = text("Hel");
    *damaged.last_mut().unwrap() ^= 1;
    let start = frame("event", "messageStart", &json!({ "role": "assistant" }));
    let breaks = [thrown(), damaged, Vec::new()];
    for broken in breaks {
        let whole = [text("Hel"), text("lo"), end()].concat();
        let cut = [text("Hel"), broken.clone()].concat();
        let server = Server::start([stream(&[start.clone(), broken].concat()), stream(&whole), stream(&cut)]).await;
        let model = Model::bedrock(PROFILE).url(&server.url).key("k").retry(quick());
        let chunks: Vec<_> = model.stream(ask("hello")).await.unwrap().collect().await;
        let Some(Ok(ChatChunk::Done(answer))) = chunks.last() else { panic!("{chunks:?}") };
        assert_eq!((answer.text(), answer.message.usage().unwrap().output_tokens), ("Hello".to_owned(), 2));
        let mut rest = model.stream(ask("hello")).await.unwrap();
        assert_eq!(rest.next().await.unwrap().unwrap(), ChatChunk::Text("Hel".to_owned()));
        let error = rest.next().await.unwrap().unwrap_err();
        assert!(matches!(error, ModelError::Unavailable { .. }), "{error:?}");
        assert_eq!(server.asked().len(), 3);
    }
}

/// The pieces in which a connection delivers the frames do not matter.
#[tokio::test]
async fn frames_arrive_in_pieces() {
    let bytes = [text("grü"), text("ß"), end()].concat();
    let Reply::Raw(all) = stream(&bytes) else { unreachable!() };
    for size in [1, 7, 13, 100] {
        let pieces = all.chunks(size).map(<[u8]>::to_vec).collect();
        let server = Server::start([Reply::Pieces(pieces)]).await;
        let model = Model::bedrock(PROFILE).url(&server.url).key("k");
        let chunks: Vec<_> = model.stream(ask("hello")).await.unwrap().collect().await;
        let Some(Ok(ChatChunk::Done(answer))) = chunks.last() else { panic!("{chunks:?}") };
        assert_eq!(answer.text(), "grüß");
    }
}

/// A thought and a call in the first answer go back in the second request, to Bedrock or to Anthropic itself.
#[tokio::test]
async fn signed_thoughts_go_back_to_claude_on_any_host() {
    let delta = |index: u8, delta: Value| {
        frame("event", "contentBlockDelta", &json!({ "contentBlockIndex": index, "delta": delta }))
    };
    let start = json!({ "contentBlockIndex": 1, "start": { "toolUse": { "toolUseId": "1", "name": "look" } } });
    let first = [
        delta(0, json!({ "reasoningContent": { "text": "hm" } })),
        delta(0, json!({ "reasoningContent": { "signature": "c2ln" } })),
        frame("event", "contentBlockStart", &start),
        delta(1, json!({ "toolUse": { "input": "{}" } })),
        frame("event", "messageStop", &json!({ "stopReason": "tool_use" })),
    ];
    let server = Server::start([stream(&first.concat()), yes()]).await;
    let model = Model::bedrock(CLAUDE).url(&server.url).key("k");
    let tool =
        ToolSpec { name: "look".to_owned(), description: String::new(), parameters: json!({ "type": "object" }) };
    let ask = |messages: Vec<Message>| ChatRequest::new(messages).tools([tool.clone()]);
    let chunks: Vec<_> = model.stream(ask(vec![Message::user("go")])).await.unwrap().collect().await;
    let Some(Ok(ChatChunk::Done(answer))) = chunks.last() else { panic!("{chunks:?}") };
    let result = Message::tool(&answer.message.tool_calls()[0], "seen");
    let messages = vec![Message::user("go"), answer.message.clone(), result];
    model.chat(ask(messages.clone())).await.unwrap();
    let content = &server.asked()[1].body["messages"][1]["content"];
    let thought = json!({ "reasoningContent": { "reasoningText": { "text": "hm", "signature": "c2ln" } } });
    assert_eq!(*content, json!([thought, { "toolUse": { "toolUseId": "1", "name": "look", "input": {} } }]));
    let own = Server::start([failed(400, "no")]).await;
    Model::anthropic("claude-sonnet-4-5").url(&own.url).key("k").chat(ask(messages)).await.unwrap_err();
    let thought = json!({ "type": "thinking", "thinking": "hm", "signature": "c2ln" });
    assert_eq!(own.asked()[0].body["messages"][1]["content"][0], thought);
}

/// A proxy may answer a stream with JSON.
#[tokio::test]
async fn unstreamed_answer_is_read() {
    let server = Server::start([yes()]).await;
    let chunks: Vec<_> =
        Model::bedrock(PROFILE).url(&server.url).key("k").stream(ask("hello")).await.unwrap().collect().await;
    assert!(matches!(chunks.last(), Some(Ok(ChatChunk::Done(answer))) if answer.text() == "yes"), "{chunks:?}");
}
