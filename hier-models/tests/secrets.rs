//! Redaction of keys. A separate program, because `tracing` caches for all threads if there is a subscriber.

mod support;

use std::io;
use std::sync::{Arc, Mutex};

use hier_agents::ChatModel;
use hier_models::Model;
use support::{Server, ask, failed, quick};

const KEY: &str = "sk-very-secret-1234";

/// Collects log output.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[tokio::test]
async fn key_is_sent_only_to_the_server() {
    // If the subscriber of this thread were the only one, tracing would drop each message that another thread logs first.
    let _ = tracing_subscriber::fmt().with_writer(std::io::sink).try_init();
    let log = Log::default();
    let writer = log.clone();
    let subscriber = tracing_subscriber::fmt()
        .with_max_level(tracing_subscriber::filter::LevelFilter::TRACE)
        .with_writer(move || writer.clone())
        .finish();
    let _guard = tracing::subscriber::set_default(subscriber);
    let tells = || failed(401, "", &format!("the key {KEY} is wrong"));
    let server = Server::start([failed(500, "", &format!("{KEY} made me fail")), tells(), tells()]).await;
    let url = server.url.replace("http://", &format!("http://me:{KEY}@"));
    let model = Model::at(&url, "m").key(KEY).retry(quick());
    let error = model.chat(ask("hello")).await.unwrap_err();
    assert!(error.to_string().contains("the key [the key] is wrong"), "{error}");
    let Err(streamed) = model.stream(ask("hello")).await else { panic!("it is refused") };
    let missing = Model::at(format!("http://me:{KEY}@127.0.0.1:1/v1"), "m").key(KEY).retry(quick());
    let unreachable = missing.chat(ask("hello")).await.unwrap_err();
    let by_query = Model::at(format!("http://127.0.0.1:1/v1?api-key={KEY}"), "m").retry(quick());
    let queried = by_query.chat(ask("hello")).await.unwrap_err();
    assert!(queried.to_string().contains("http://127.0.0.1:1/v1"), "the rest of the address is shown: {queried}");
    let Err(stream_unreachable) = missing.stream(ask("hello")).await else { panic!("nothing listens there") };
    let parsed = Model::parse(&format!("http://me:{KEY}@host/v1?key={KEY}#")).unwrap_err();
    #[cfg(feature = "bedrock")]
    let signed = signed_requests().await;
    #[cfg(not(feature = "bedrock"))]
    let signed = String::new();
    let logged = String::from_utf8(log.0.lock().unwrap().clone()).unwrap();
    assert!(logged.contains("retrying a model request"), "something was logged: {logged}");
    let received = format!(
        "{model:?} {model:#?} {error:?} {error} {streamed:?} {streamed} {unreachable:?} {queried:?} {queried} {stream_unreachable:?} {parsed} {signed} {logged}"
    );
    assert!(!received.contains(KEY), "{received}");
    assert!(server.asked()[0].head.contains(KEY), "and yet it was sent");
}

/// Sends signed requests whose secrets all contain the key. Bedrock repeats the session token in errors about signatures.
/// Returns what a program sees.
#[cfg(feature = "bedrock")]
async fn signed_requests() -> String {
    use hier_models::aws_credential_types::Credentials;

    let echo = || {
        let text = format!("The Canonical String for this request should have been 'x-amz-security-token:token-{KEY}'");
        bedrock_error(403, &text)
    };
    let server = Server::start([bedrock_error(503, &format!("secret-{KEY} and id-{KEY}")), echo(), echo()]).await;
    let credentials =
        Credentials::new(format!("id-{KEY}"), format!("secret-{KEY}"), Some(format!("token-{KEY}")), None, "test");
    let model = Model::bedrock("amazon.nova-pro-v1:0").aws_region("us-east-1");
    let model = model.url(format!("{}?gateway-key={KEY}", server.url));
    let model = model.aws_credentials(credentials).retry(quick());
    let error = model.chat(ask("hello")).await.unwrap_err();
    assert!(error.to_string().contains("x-amz-security-token:[the key]"), "{error}");
    let Err(streamed) = model.stream(ask("hello")).await else { panic!("it is refused") };
    assert!(server.asked()[0].head.contains(&format!("token-{KEY}")), "and yet it was sent");
    format!("{model:?} {error} {error:?} {streamed} {streamed:?}")
}

#[cfg(feature = "bedrock")]
fn bedrock_error(status: u16, message: &str) -> support::Reply {
    support::Reply::Whole(status, "", serde_json::json!({ "message": message }).to_string())
}
