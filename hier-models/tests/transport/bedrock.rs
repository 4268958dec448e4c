//! Amazon Bedrock: signatures, keys, streams of frames, and errors.

use std::fmt::Write;

use aws_smithy_eventstream::frame::write_message_to;
use aws_smithy_types::event_stream::{Header, HeaderValue, Message as Frame};
use futures_util::StreamExt;
use hier_agents::{ChatChunk, ChatModel, ModelError};
use hier_models::Model;
use hier_models::aws_credential_types::Credentials;
use hier_models::aws_credential_types::provider::error::CredentialsError;
use hier_models::aws_credential_types::provider::{ProvideCredentials, future};
use hmac::{Hmac, KeyInit, Mac};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::support::{Asked, Reply, Server, ask, quick};

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

fn header<'a>(asked: &'a Asked, name: &str) -> Option<&'a str> {
    let lines = asked.head.lines().skip(1).filter_map(|line| line.split_once(": "));
    lines.into_iter().find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| value)
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

fn hmac(key: &[u8], text: &str) -> Vec<u8> {
    let mut mac = Hmac::<Sha256>::new_from_slice(key).unwrap();
    mac.update(text.as_bytes());
    mac.finalize().into_bytes().to_vec()
}

/// Computes the signature of a received request as the documentation of AWS describes it, without the library that
/// signed it: the path is encoded once more, and all listed headers are signed.
fn expected_signature(asked: &Asked, region: &str, service: &str) -> String {
    let path = asked.head.split(' ').nth(1).unwrap();
    let (path, query) = path.split_once('?').unwrap_or((path, ""));
    let signed = header(asked, "authorization").unwrap().split("SignedHeaders=").nth(1).unwrap();
    let signed = signed.split(',').next().unwrap();
    let mut canonical = format!("POST\n{}\n{query}\n", path.replace('%', "%25"));
    for name in signed.split(';') {
        let _ = writeln!(canonical, "{name}:{}", header(asked, name).unwrap().trim());
    }
    let _ = write!(canonical, "\n{signed}\n{}", hex(&Sha256::digest(&asked.bytes)));
    let time = header(asked, "x-amz-date").unwrap();
    let scope = format!("{}/{region}/{service}/aws4_request", &time[..8]);
    let text = format!("AWS4-HMAC-SHA256\n{time}\n{scope}\n{}", hex(&Sha256::digest(canonical.as_bytes())));
    let mut key = format!("AWS4{SECRET}").into_bytes();
    for part in scope.split('/') {
        key = hmac(&key, part);
    }
    hex(&hmac(&key, &text))
}

fn check_signature(asked: &Asked, region: &str) {
    let authorization = header(asked, "authorization").unwrap();
    let (_, signature) = authorization.split_once("Signature=").unwrap();
    assert_eq!(signature, expected_signature(asked, region, "bedrock"), "{}", asked.head);
    assert!(
        authorization.contains("SignedHeaders=content-type;host;x-amz-date;x-amz-security-token"),
        "{authorization}"
    );
    assert!(authorization.contains(&format!("/{region}/bedrock/aws4_request")), "{authorization}");
}

/// The computation above, against the example `double-url-encode` of AWS's published signatures.
#[test]
fn expected_signature_is_that_of_the_published_example() {
    let head = "POST /2015-03-31/functions/arn%3Aaws%3Alambda%3Aus-west-2%3A892717189312%3Afunction%3Amy-rusty-fun/invocations \
                HTTP/1.1\r\nHost: lambda.us-east-2.amazonaws.com\r\nX-Amz-Date: 20210511T154045Z\r\n\
                Authorization: AWS4-HMAC-SHA256 SignedHeaders=host;x-amz-date, Signature=?\r\n\r\n";
    let asked = Asked { head: head.to_owned(), body: Value::Null, bytes: Vec::new() };
    let published = "4b93abbcc68be32bd64c18e2c71150660ab4c29bbd6c32a383a7517a88fc1804";
    assert_eq!(expected_signature(&asked, "us-east-2", "lambda"), published);
}

#[tokio::test]
async fn requests_are_signed_for_ids_and_arns() {
    for (name, region, path) in [
        (CLAUDE, "us-east-2", "us.anthropic.claude-sonnet-4-5-20250929-v1%3A0"),
        (
            PROFILE,
            "eu-west-3",
            "arn%3Aaws%3Abedrock%3Aeu-west-3%3A123456789012%3Aapplication-inference-profile%2Fabc123",
        ),
    ] {
        let server = Server::start([yes(), yes(), stream(&[text("yes"), end()].concat())]).await;
        let base = server.url.trim_end_matches("/v1");
        let mut model = Model::bedrock(name).url(base).aws_credentials(credentials());
        if name == CLAUDE {
            model = model.aws_region(region);
        }
        assert_eq!(model.chat(ask("grüß")).await.unwrap().text(), "yes");
        // A path and a query of a proxy are signed, too. User and password are not.
        let proxy = format!("{}/gateway?b=2&a=1", base.replace("http://", "http://me:pass@"));
        assert_eq!(model.clone().url(proxy).chat(ask("hello")).await.unwrap().text(), "yes");
        let chunks: Vec<_> = model.stream(ask("hello")).await.unwrap().collect().await;
        assert!(
            matches!(&chunks[..], [Ok(ChatChunk::Text(text)), Ok(ChatChunk::Done(_))] if text == "yes"),
            "{chunks:?}"
        );
        let [plain, proxied, streamed] = &server.asked()[..] else { panic!("three requests") };
        assert!(plain.head.starts_with(&format!("POST /model/{path}/converse ")), "{}", plain.head);
        assert!(streamed.head.starts_with(&format!("POST /model/{path}/converse-stream ")), "{}", streamed.head);
        check_signature(plain, region);
        check_signature(streamed, region);
        assert_eq!(header(plain, "x-amz-security-token"), Some(SESSION));
        let sorted = Asked { head: proxied.head.replacen("?b=2&a=1 ", "?a=1&b=2 ", 1), ..proxied.clone() };
        assert!(proxied.head.contains(&format!("/gateway/model/{path}/converse?b=2&a=1 ")), "{}", proxied.head);
        check_signature(&sorted, region);
    }
}

#[tokio::test]
async fn keys_are_bearer_tokens() {
    let server = Server::start([yes(), yes()]).await;
    let model = Model::parse(&format!("bedrock+{}#{CLAUDE}", server.url)).unwrap();
    assert_eq!((model.provider(), model.name()), ("aws.bedrock", CLAUDE));
    model.clone().key("bedrock-api-key-1").chat(ask("hello")).await.unwrap();
    let token = || async { Ok::<_, std::convert::Infallible>("short-term-1".to_owned()) };
    model.token_with(token).chat(ask("hello")).await.unwrap();
    let keys: Vec<_> = server.asked().iter().map(|asked| header(asked, "authorization").map(str::to_owned)).collect();
    assert_eq!(keys, [Some("Bearer bedrock-api-key-1".to_owned()), Some("Bearer short-term-1".to_owned())]);
    assert!(header(&server.asked()[0], "x-amz-date").is_none());
}

#[test]
fn region_decides_the_url() {
    let url = |model: &Model| format!("{model:?}");
    let model = Model::bedrock(PROFILE);
    assert!(url(&model).contains("https://bedrock-runtime.eu-west-3.amazonaws.com\""), "{model:?}");
    for (region, host) in [
        ("us-east-1", "bedrock-runtime.us-east-1.amazonaws.com"),
        ("us-gov-west-1", "bedrock-runtime.us-gov-west-1.amazonaws.com"),
        ("cn-north-1", "bedrock-runtime.cn-north-1.amazonaws.com.cn"),
        ("eusc-de-east-1", "bedrock-runtime.eusc-de-east-1.amazonaws.eu"),
    ] {
        assert!(url(&model.clone().aws_region(region)).contains(&format!("https://{host}\"")), "{region}");
    }
    let own = "https://vpce-1.bedrock-runtime.us-east-1.vpce.amazonaws.com";
    for model in [model.clone().url(own).aws_region("us-east-1"), model.aws_region("us-east-1").url(own)] {
        assert!(url(&model).contains(own), "{model:?}");
    }
}

#[tokio::test]
async fn wrong_region_is_refused() {
    let model = Model::bedrock(CLAUDE).aws_region("evil.example/").aws_credentials(credentials());
    let error = model.chat(ask("hello")).await.unwrap_err().to_string();
    assert!(error.contains("invalid region `evil.example/`: write it as `us-east-1`"), "{error}");
}

#[derive(Debug)]
struct Failing(fn() -> CredentialsError);

impl ProvideCredentials for Failing {
    fn provide_credentials<'a>(&'a self) -> future::ProvideCredentials<'a>
    where
        Self: 'a,
    {
        future::ProvideCredentials::ready(Err((self.0)()))
    }
}

#[tokio::test]
async fn errors_of_providers_are_reported() {
    let model = |error| Model::bedrock(PROFILE).aws_credentials(Failing(error)).retry(quick());
    let error = model(|| CredentialsError::provider_error("the vault is sealed")).chat(ask("hello")).await.unwrap_err();
    assert!(matches!(error, ModelError::Unavailable { .. }), "{error:?}");
    assert!(error.to_string().contains("the provider of `aws_credentials` failed: "), "{error}");
    assert!(error.to_string().contains("the vault is sealed"), "{error}");
    let error = model(|| CredentialsError::not_loaded("no profile")).chat(ask("hello")).await.unwrap_err();
    assert!(matches!(error, ModelError::Refused { .. }) && error.to_string().contains("no profile"), "{error:?}");
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

/// A proxy may answer a stream with JSON.
#[tokio::test]
async fn unstreamed_answer_is_read() {
    let server = Server::start([yes()]).await;
    let chunks: Vec<_> =
        Model::bedrock(PROFILE).url(&server.url).key("k").stream(ask("hello")).await.unwrap().collect().await;
    assert!(matches!(chunks.last(), Some(Ok(ChatChunk::Done(answer))) if answer.text() == "yes"), "{chunks:?}");
}
