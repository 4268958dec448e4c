//! Providers that offer the APIs of others, and keys that come from functions.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use futures_util::StreamExt;
use hier_agents::{ChatChunk, ChatModel, ModelError, OutputSpec};
use hier_models::Model;
use hier_models::reqwest::{Client, redirect::Policy};
use serde_json::json;

use super::support::{Reply, Server, ask, failed, quick};

const TOKEN: &str = "ya29.very-secret-token";

fn completion() -> Reply {
    let message = json!({ "role": "assistant", "content": "yes" });
    let answer = json!({ "model": "m", "choices": [{ "index": 0, "finish_reason": "stop", "message": message }] });
    Reply::Whole(200, "", answer.to_string())
}

fn claude() -> Reply {
    let answer = json!({ "model": "m", "content": [{ "type": "text", "text": "yes" }], "stop_reason": "end_turn" });
    Reply::Whole(200, "", answer.to_string())
}

fn gemini() -> Reply {
    let content = json!({ "role": "model", "parts": [{ "text": "yes" }] });
    Reply::Whole(200, "", json!({ "candidates": [{ "content": content, "finishReason": "STOP" }] }).to_string())
}

async fn token() -> Result<String, Infallible> {
    Ok(TOKEN.to_owned())
}

fn has_line(head: &str, line: &str) -> bool {
    head.lines().any(|found| found.eq_ignore_ascii_case(line))
}

#[tokio::test]
async fn azure_sends_keys_and_tokens_in_their_headers() {
    let server = Server::start([completion(), completion()]).await;
    let resource = server.url.trim_end_matches("/v1");
    let by_key = Model::azure(resource, "our-gpt").key("k-1");
    assert_eq!(by_key.chat(ask("hello")).await.unwrap().text(), "yes");
    assert_eq!(by_key.provider(), "azure.ai.openai");
    let by_token = Model::azure(format!("{resource}/"), "our-gpt").token_with(token);
    assert_eq!(by_token.chat(ask("hello")).await.unwrap().text(), "yes");
    let [first, second] = &server.asked()[..] else { panic!("two requests") };
    for request in [first, second] {
        assert!(request.head.starts_with("POST /openai/v1/chat/completions "), "{}", request.head);
        assert_eq!(request.body["model"], "our-gpt");
    }
    assert!(has_line(&first.head, "api-key: k-1") && !first.head.contains("authorization"), "{}", first.head);
    assert!(has_line(&second.head, &format!("authorization: Bearer {TOKEN}")), "{}", second.head);
    assert!(!second.head.contains("api-key"), "{}", second.head);
}

#[test]
fn azure_urls_keep_their_path() {
    let url = |resource: &str| format!("{:?}", Model::azure(resource, "d").key("k"));
    assert!(url("https://a.openai.azure.com").contains("https://a.openai.azure.com/openai/v1"));
    assert!(url("https://proxy/openai/v1/").contains("https://proxy/openai/v1"));
    assert!(!url("https://proxy/openai/v1/").contains("v1/openai"));
}

#[test]
fn addresses_name_the_hosted_providers() {
    let openrouter = Model::parse("openrouter:qwen/qwen3-32b").unwrap();
    assert_eq!((openrouter.provider(), openrouter.reports_cost()), ("openrouter", true));
    assert!(
        !Model::at("https://openrouter.ai/api/v1", "qwen/qwen3-32b").reports_cost(),
        "a server at a URL may count in another unit"
    );
    let azure = Model::parse("azure+https://a.openai.azure.com/openai/v1#d").unwrap();
    assert_eq!((azure.provider(), azure.name()), ("azure.ai.openai", "d"));
    let error = Model::parse("azure:d").unwrap_err().to_string();
    assert!(error.contains("set `AZURE_OPENAI_ENDPOINT`"), "{error}");
    let error = Model::parse("openruter:m").unwrap_err().to_string();
    assert!(error.contains("did you mean `openrouter`"), "{error}");
}

#[tokio::test]
async fn vertex_has_the_model_of_anthropic_in_its_path() {
    let events = [
        json!({ "type": "message_start", "message": { "model": "m" } }),
        json!({ "type": "content_block_start", "index": 0, "content_block": { "type": "text", "text": "" } }),
        json!({ "type": "content_block_delta", "index": 0, "delta": { "type": "text_delta", "text": "yes" } }),
        json!({ "type": "content_block_stop", "index": 0 }),
        json!({ "type": "message_delta", "delta": { "stop_reason": "end_turn" } }),
        json!({ "type": "message_stop" }),
    ]
    .map(|event| {
        format!(
            "data: {event}

"
        )
    })
    .concat();
    let server = Server::start([claude(), Reply::Events(events)]).await;
    let model = Model::vertex("p", "europe-west1", "claude-sonnet-4-5@20250929").url(&server.url).token_with(token);
    let schema = json!({ "type": "object", "properties": { "sum": { "type": "number" } }, "required": ["sum"] });
    let shape = OutputSpec { name: "answer".to_owned(), schema };
    // By default, the policy of Google's organizations refuses schemas.
    assert!(!model.native_output(&shape) && model.clone().with_native_output(true).native_output(&shape));
    assert_eq!(model.chat(ask("hello")).await.unwrap().text(), "yes");
    let chunks: Vec<_> = model.stream(ask("hello")).await.unwrap().collect().await;
    assert!(chunks.iter().any(|chunk| matches!(chunk, Ok(ChatChunk::Text(text)) if text == "yes")), "{chunks:?}");
    let [whole, streamed] = &server.asked()[..] else { panic!("two requests") };
    assert!(whole.head.starts_with("POST /v1/models/claude-sonnet-4-5%4020250929:rawPredict "), "{}", whole.head);
    assert!(streamed.head.contains(":streamRawPredict "), "{}", streamed.head);
    for request in [whole, streamed] {
        assert!(has_line(&request.head, &format!("authorization: Bearer {TOKEN}")), "{}", request.head);
        assert!(!request.head.contains("anthropic-version") && !request.head.contains("x-api-key"), "{}", request.head);
        assert_eq!(request.body["anthropic_version"], "vertex-2023-10-16");
        assert_eq!(request.body.get("model"), None);
    }
    assert_eq!(streamed.body["stream"], true);
}

#[tokio::test]
async fn vertex_takes_tokens_for_models_of_google() {
    let url = |location: &str, name: &str| format!("{:?}", Model::vertex("p", location, name));
    let regional = "https://us-east5-aiplatform.googleapis.com/v1/projects/p/locations/us-east5/publishers/anthropic";
    assert!(url("us-east5", "claude-opus-4-5").contains(regional));
    let global = "https://aiplatform.googleapis.com/v1/projects/p/locations/global/publishers/google";
    assert!(url("global", "gemini-3-pro").contains(global));
    for location in ["us", "eu"] {
        let of_regions =
            format!("https://aiplatform.{location}.rep.googleapis.com/v1/projects/p/locations/{location}/");
        assert!(url(location, "gemini-3-pro").contains(&of_regions));
    }
    let server = Server::start([gemini()]).await;
    let model = Model::vertex("p", "global", "gemini-3-pro").url(&server.url);
    let error = model.chat(ask("hello")).await.unwrap_err().to_string();
    assert!(error.contains("no token: pass a function that returns one to `token_with`"), "{error}");
    assert_eq!(model.token_with(token).chat(ask("hello")).await.unwrap().text(), "yes");
    let asked = server.asked();
    assert!(asked[0].head.starts_with("POST /v1/models/gemini-3-pro:generateContent "), "{}", asked[0].head);
    assert!(has_line(&asked[0].head, &format!("authorization: Bearer {TOKEN}")), "{}", asked[0].head);
}

#[tokio::test]
async fn key_function_is_called_for_each_request_and_retried() {
    let calls = Arc::new(AtomicU32::new(0));
    let counter = calls.clone();
    let key = move || {
        let call = counter.fetch_add(1, Ordering::Relaxed);
        async move { if call == 0 { Err("the vault is sealed") } else { Ok(format!("  key-{call}\n")) } }
    };
    let server = Server::start([failed(503, "", "busy: key-1 waits"), claude()]).await;
    let model = Model::anthropic("claude-sonnet-4-5").url(&server.url).key_with(key).retry(quick());
    assert_eq!(model.chat(ask("hello")).await.unwrap().text(), "yes");
    let heads: Vec<_> = server.asked().into_iter().map(|asked| asked.head).collect();
    assert!(has_line(&heads[0], "x-api-key: key-1") && has_line(&heads[1], "x-api-key: key-2"), "{heads:?}");
    assert_eq!(calls.load(Ordering::Relaxed), 3);
}

#[tokio::test]
async fn errors_of_key_functions_name_the_setting_and_no_key_is_shown() {
    let fails = || async { Err::<String, _>("the vault is sealed") };
    let error = Model::openai("gpt-4o").key_with(fails).retry(quick()).chat(ask("hello")).await.unwrap_err();
    assert!(matches!(error, ModelError::Unavailable { .. }), "{error}");
    assert!(error.to_string().contains("the function of `key_with` failed: the vault is sealed"), "{error}");
    let empty = || async { Ok::<_, Infallible>(" ".to_owned()) };
    let error = Model::openai("gpt-4o").token_with(empty).chat(ask("hello")).await.unwrap_err();
    assert!(error.to_string().contains("the function of `token_with` returned an empty text"), "{error}");
    let server = Server::start([failed(401, "", &format!("{TOKEN} is wrong, so is tenant-7-secret"))]).await;
    let model = Model::at(&server.url, "m").token_with(token).header("x-tenant", "tenant-7-secret");
    let error = model.chat(ask("hello")).await.unwrap_err();
    assert!(error.to_string().contains("[the key] is wrong"), "{error}");
    let shown = format!("{error} {error:?} {model:?}");
    assert!(!shown.contains(TOKEN) && !shown.contains("tenant-7-secret"), "{shown}");
}

#[tokio::test]
async fn silent_key_function_is_bounded() {
    let never = || std::future::pending::<Result<String, Infallible>>();
    let model = Model::openai("gpt-4o").key_with(never).timeout(std::time::Duration::from_millis(20)).retry(quick());
    let error = model.chat(ask("hello")).await.unwrap_err().to_string();
    assert!(error.contains("the function of `key_with` took longer than 20ms"), "{error}");
}

#[tokio::test]
async fn headers_and_clients_are_the_programs() {
    let server = Server::start([completion(), completion()]).await;
    let client = Client::builder().user_agent("desk/7").redirect(Policy::none()).build().unwrap();
    let model = Model::at(&server.url, "m").client(client).header("x-title", "desk").header("X-Title", "Desk 7");
    model.chat(ask("hello")).await.unwrap();
    // A later setting keeps the client.
    model.key("k").chat(ask("hello")).await.unwrap();
    for asked in server.asked() {
        assert!(has_line(&asked.head, "user-agent: desk/7"), "{}", asked.head);
        assert!(has_line(&asked.head, "x-title: Desk 7") && !asked.head.contains("x-title: desk"), "{}", asked.head);
    }
    for (name, value, part) in [("x title", "v", "name"), ("x-title", "a\nb", "value")] {
        let error = Model::at(&server.url, "m").header(name, value).chat(ask("hello")).await.unwrap_err().to_string();
        assert!(error.contains(&format!("invalid header `{name}`: HTTP does not allow its {part}")), "{error}");
    }
}
