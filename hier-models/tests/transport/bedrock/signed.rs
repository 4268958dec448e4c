//! Signatures, regions, and the sources of keys and credentials.

use std::fmt::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, SystemTime};

use futures_util::StreamExt;
use hier_agents::{ChatChunk, ChatModel, ModelError};
use hier_models::Model;
use hier_models::aws_credential_types::Credentials;
use hier_models::aws_credential_types::provider::error::CredentialsError;
use hier_models::aws_credential_types::provider::{ProvideCredentials, future};
use hmac::{Hmac, KeyInit, Mac};
use serde_json::Value;
use sha2::{Digest, Sha256};

use super::{CLAUDE, PROFILE, SECRET, SESSION, credentials, end, stream, text, yes};
use crate::support::{Asked, Server, ask, quick};

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
    assert!(error.contains("invalid AWS region `evil.example/`: write a name like `us-east-1`"), "{error}");
}

#[tokio::test]
async fn other_providers_get_no_signature() {
    let server = Server::start([yes()]).await;
    let model = Model::anthropic("claude-opus-4-5").url(&server.url).aws_region("us-east-1");
    let error = model.aws_credentials(credentials()).chat(ask("hello")).await.unwrap_err().to_string();
    assert!(error.contains("`aws_credentials` is a setting of models of Amazon Bedrock"), "{error}");
    assert!(server.asked().is_empty());
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

/// Counts how often it was asked for credentials, which expire after this time.
#[derive(Debug)]
struct Expiring(Arc<AtomicU32>, Duration);

impl ProvideCredentials for Expiring {
    fn provide_credentials<'a>(&'a self) -> future::ProvideCredentials<'a>
    where
        Self: 'a,
    {
        let number = self.0.fetch_add(1, Ordering::Relaxed);
        let end = SystemTime::now() + self.1;
        let credentials = Credentials::new("AKIDEXAMPLE", SECRET, Some(format!("session-{number}")), Some(end), "test");
        future::ProvideCredentials::new(async move {
            tokio::task::yield_now().await;
            Ok(credentials)
        })
    }
}

#[tokio::test]
async fn credentials_are_kept_until_they_expire() {
    for (lifetime, expected) in [(Duration::from_hours(1), 1), (Duration::from_secs(30), 3)] {
        let server = Server::start([yes(), yes(), yes()]).await;
        let counter = Arc::new(AtomicU32::new(0));
        let provider = Expiring(counter.clone(), lifetime);
        let model = Model::bedrock(PROFILE).url(&server.url).aws_credentials(provider);
        let all = [model.chat(ask("a")), model.chat(ask("b")), model.chat(ask("c"))];
        for answer in futures_util::future::join_all(all).await {
            answer.unwrap();
        }
        assert_eq!(counter.load(Ordering::Relaxed), expected);
        let last = format!("session-{}", expected - 1);
        assert!(server.asked().iter().any(|asked| header(asked, "x-amz-security-token") == Some(&*last)));
    }
}

const CHILD: &str = "HIER_TEST_BEDROCK";

#[tokio::test]
#[ignore = "a process that other tests start"]
async fn child_process() {
    let url = std::env::var(CHILD).expect("started by the test below");
    let mut model = Model::parse(&format!("bedrock:{CLAUDE}")).unwrap();
    if !url.is_empty() {
        model = model.url(url);
    }
    match model.chat(ask("hello")).await {
        Ok(answer) => println!("answer: {}", answer.text()),
        Err(error) => println!("error: {error}"),
    }
}

/// Runs the process above with these variables, and returns its output.
async fn in_environment(url: &str, variables: &[(&str, &str)]) -> String {
    let mut child = std::process::Command::new(std::env::current_exe().unwrap());
    child.args(["--ignored", "--exact", "--nocapture", "bedrock::signed::child_process"]).env(CHILD, url);
    let inherited = std::env::vars().map(|(name, _)| name).filter(|name| name.starts_with("AWS_"));
    inherited.for_each(|name| _ = child.env_remove(name));
    child.envs(variables.iter().copied());
    let output = tokio::task::spawn_blocking(move || child.output()).await.unwrap().unwrap();
    String::from_utf8(output.stdout).unwrap()
}

#[tokio::test]
async fn environment_has_region_credentials_and_key() {
    let signed =
        [("AWS_ACCESS_KEY_ID", "AKIDEXAMPLE"), ("AWS_SECRET_ACCESS_KEY", SECRET), ("AWS_SESSION_TOKEN", SESSION)];
    let key = [("AWS_BEARER_TOKEN_BEDROCK", "bedrock-api-key-1")];
    let older = [("AWS_DEFAULT_REGION", "sa-east-1")];
    let newer = [("AWS_REGION", "eu-central-1")];
    let server = Server::start([yes(), yes(), yes()]).await;
    for variables in
        [[&signed[..], &older].concat(), [&signed[..], &older, &newer].concat(), [&signed[..], &key].concat()]
    {
        let output = in_environment(&server.url, &variables).await;
        assert!(output.contains("answer: yes"), "{output}");
    }
    check_signature(&server.asked()[0], "sa-east-1");
    check_signature(&server.asked()[1], "eu-central-1");
    assert_eq!(header(&server.asked()[2], "authorization"), Some("Bearer bedrock-api-key-1"));
    for (url, variables, error) in [
        (&*server.url, &newer[..], "no AWS credentials: set `AWS_BEARER_TOKEN_BEDROCK`, or `AWS_ACCESS_KEY_ID`"),
        (&*server.url, &signed[..], "no AWS region: set `AWS_REGION`, or pass one to `aws_region`"),
        ("", &key[..], "no AWS region: set `AWS_REGION`, or pass one to `aws_region`"),
    ] {
        let output = in_environment(url, variables).await;
        assert!(output.contains(error) && !output.contains(SECRET), "{output}");
    }
}
