//! Work is bounded, and accepted values can be read back and deleted.

use std::time::Duration;

use hier_agents::prelude::*;
use hier_server::Server;
use reqwest::Method;
use serde_json::{Value, json};

use crate::graphs::server;
use crate::support::{Desk, as_user, open};

#[derive(State, Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
struct Any {
    any: Value,
    levels: usize,
}

graph! {
    /// Keeps its input, or a value with this many levels.
    Keep<Any> = Graph { nodes: [keep], edges: [START >> keep >> END] }
}

async fn keep(any: &Any) -> AnyUpdate {
    if any.levels > 0 { Any::update().any(nested(any.levels, json!(1))) } else { Any::update() }
}

/// A value in this many lists.
fn nested(levels: usize, inside: Value) -> Value {
    (0..levels).fold(inside, |value, _| json!([value]))
}

async fn filed(folder: &tempfile::TempDir) -> Desk {
    let database = format!("sqlite:{}", folder.path().join("desk.db").display());
    open(Server::new().graph("keep", Keep::compile(), ()).database(database)).await
}

/// A body whose innermost value is in lists, so that the whole body has this many levels.
fn filled(body: &Value, field: &str, levels: usize) -> Value {
    let mut body = body.clone();
    let depth = field.matches('/').count();
    *body.pointer_mut(field).expect("a field") = nested(levels - depth, json!("x"));
    body
}

#[tokio::test]
async fn accepted_bodies_can_be_read_back_and_deleted() {
    let folder = tempfile::tempdir().expect("a folder");
    let desk = filed(&folder).await;
    let run = json!({ "assistant_id": "keep", "input": { "any": null } });
    let cron = json!({ "assistant_id": "keep", "schedule": "0 0 1 1 *", "input": { "any": null } });
    for levels in [50, 99, 100, 101, 110, 120, 124, 125, 126, 127, 128, 200] {
        let is_taken = levels <= 100;
        let check = |what: &str, (status, answer): &(u16, Value)| {
            if is_taken {
                assert!((200..300).contains(status), "{what} with {levels} levels: {status} {answer}");
            } else {
                assert_eq!(*status, 422, "{what} with {levels} levels: {answer}");
                let text = answer["detail"].as_str().unwrap_or_default();
                assert!(text.contains("levels") || text.contains("Invalid JSON"), "{text}");
            }
        };
        let thread = desk.thread().await;
        let runs = format!("/threads/{thread}/runs");
        let waited = desk.post(&format!("{runs}/wait"), filled(&run, "/input/any", levels)).await;
        check("a run", &waited);
        let mut delayed = filled(&run, "/input/any", levels);
        delayed["after_seconds"] = json!(1_000);
        let added = desk.post(&runs, delayed).await;
        check("a delayed run", &added);
        let state = json!({ "values": { "any": null }, "as_node": "keep" });
        let ready = json!({ "assistant_id": "keep", "input": { "any": 1 } });
        let other = desk.thread().await;
        assert_eq!(desk.post(&format!("/threads/{other}/runs/wait"), ready).await.0, 200);
        let changed = desk.post(&format!("/threads/{other}/state"), filled(&state, "/values/any", levels)).await;
        check("a state", &changed);
        let made = desk.post("/runs/crons", filled(&cron, "/input/any", levels)).await;
        check("a cron", &made);
        let body = json!({ "graph_id": "keep", "config": { "configurable": { "any": null } } });
        let assistant = desk.post("/assistants", filled(&body, "/config/configurable/any", levels)).await;
        check("an assistant", &assistant);
        let metadata =
            desk.post("/threads", filled(&json!({ "metadata": { "any": null } }), "/metadata/any", levels)).await;
        check("metadata", &metadata);
        if !is_taken {
            continue;
        }
        let id = |(_, answer): &(u16, Value), name: &str| answer[name].as_str().expect("an id").to_owned();
        let run_path = format!("{runs}/{}", id(&added, "run_id"));
        for path in [
            run_path.clone(),
            runs.clone(),
            format!("/threads/{thread}"),
            format!("/threads/{thread}/state"),
            format!("/threads/{thread}/history"),
            format!("/threads/{other}/state"),
            format!("/runs/crons/{}", id(&made, "cron_id")),
            format!("/assistants/{}", id(&assistant, "assistant_id")),
            format!("/studio/api/threads/{thread}"),
        ] {
            let (status, answer) = desk.get(&path).await;
            assert_eq!(status, 200, "{path} with {levels} levels: {answer}");
        }
        for (path, body) in [
            ("/threads/search".to_owned(), json!({ "limit": 1_000 })),
            ("/runs/crons/search".to_owned(), json!({})),
            ("/assistants/search".to_owned(), json!({})),
            (format!("{run_path}/cancel"), json!({})),
        ] {
            let (status, answer) = desk.post(&path, body).await;
            assert!((200..300).contains(&status), "{path} with {levels} levels: {status} {answer}");
        }
        for path in [
            run_path,
            format!("/runs/crons/{}", id(&made, "cron_id")),
            format!("/assistants/{}", id(&assistant, "assistant_id")),
            format!("/threads/{thread}"),
            format!("/threads/{other}"),
            format!("/threads/{}", id(&metadata, "thread_id")),
        ] {
            let (status, answer) = desk.ask(Method::DELETE, &path, Value::Null).await;
            assert_eq!(status, 204, "{path} with {levels} levels: {answer}");
        }
    }
    desk.stop().await;
}

#[tokio::test]
async fn run_with_an_unstorable_result_fails_and_releases_its_thread() {
    let folder = tempfile::tempdir().expect("a folder");
    let desk = filed(&folder).await;
    let thread = desk.thread().await;
    let deep = |levels: usize| json!({ "assistant_id": "keep", "input": { "levels": levels } });
    let path = format!("/threads/{thread}/runs/wait");
    assert_eq!(desk.post(&path, deep(100)).await.0, 200);
    let (_, ended) = desk.post(&path, deep(200)).await;
    let text = ended["__error__"].to_string();
    assert!(text.contains("nested deeper than 127 levels"), "{ended}");
    let (_, row) = desk.get(&format!("/threads/{thread}")).await;
    assert_eq!(row["status"], "error");
    let (status, ended) = desk.post(&path, deep(3)).await;
    assert_eq!((status, &ended["any"]), (200, &nested(3, json!(1))));
    let (_, runs) = desk.get(&format!("/threads/{thread}/runs")).await;
    assert_eq!(runs.as_array().map(Vec::len), Some(3));
    assert_eq!(desk.ask(Method::DELETE, &format!("/threads/{thread}"), Value::Null).await.0, 204);
    desk.stop().await;
}

#[tokio::test]
async fn times_to_live_are_limited() {
    let folder = tempfile::tempdir().expect("a folder");
    let desk = filed(&folder).await;
    let thread = desk.thread().await;
    for minutes in [0.0, 1.5, 1e6, 52_560_000.0] {
        assert_eq!(desk.post("/threads", json!({ "ttl": minutes })).await.0, 200, "{minutes}");
        let patch = json!({ "ttl": { "ttl": minutes } });
        assert_eq!(desk.ask(Method::PATCH, &format!("/threads/{thread}"), patch).await.0, 200, "{minutes}");
        let item = json!({ "namespace": ["u"], "key": "k", "value": {}, "ttl": minutes });
        assert_eq!(desk.ask(Method::PUT, "/store/items", item).await.0, 204, "{minutes}");
    }
    for minutes in [-1.0, 52_560_001.0, 1e10, 1.5e11, 1e17, 3e17, 1e300] {
        for (method, path, body) in [
            (Method::POST, "/threads".to_owned(), json!({ "ttl": minutes })),
            (Method::PATCH, format!("/threads/{thread}"), json!({ "ttl": minutes })),
            (
                Method::PUT,
                "/store/items".to_owned(),
                json!({ "namespace": ["u"], "key": "k", "value": {}, "ttl": minutes }),
            ),
        ] {
            let (status, answer) = desk.ask(method, &path, body).await;
            assert_eq!(status, 422, "{minutes}: {answer}");
            assert!(answer["detail"].as_str().is_some_and(|text| text.starts_with("`ttl`: ")), "{answer}");
        }
    }
    let (status, found) = desk.post("/threads/search", json!({ "limit": 100 })).await;
    assert_eq!(status, 200, "{found}");
    desk.stop().await;
}

#[tokio::test]
async fn long_names_are_refused_by_every_store() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = filed(&folder).await;
    let memory = open(Server::new().graph("keep", Keep::compile(), ())).await;
    for desk in [&file, &memory] {
        for (namespace, key, status) in [
            (json!(["u"]), "k".repeat(2_500), 204),
            (json!(["u"]), "k".repeat(2_501), 422),
            (json!(["u".repeat(2_500)]), "k".to_owned(), 204),
            (json!(["u".repeat(1_250), "v".repeat(1_249)]), "k".to_owned(), 204),
            (json!(["u".repeat(1_250), "v".repeat(1_250)]), "k".to_owned(), 422),
        ] {
            let item = json!({ "namespace": namespace, "key": key, "value": {} });
            let (found, answer) = desk.ask(Method::PUT, "/store/items", item).await;
            assert_eq!(found, status, "{answer}");
            let gone = json!({ "namespace": namespace, "key": key });
            assert_eq!(desk.ask(Method::DELETE, "/store/items", gone).await.0, status);
        }
    }
    file.stop().await;
    memory.stop().await;
}

#[tokio::test]
async fn comparisons_of_misspelt_fields_are_limited() {
    let desk = open(server()).await;
    let (status, refused) = desk.post("/threads", json!({ "metadat": {} })).await;
    assert_eq!((status, refused["detail"].as_str()), (422, Some("unknown field `metadat`: did you mean `metadata`?")));
    let many: serde_json::Map<String, Value> = (0..200_000).map(|n| (format!("met{n}"), json!(1))).collect();
    let long: serde_json::Map<String, Value> =
        (0..100).map(|n| (format!("{n}{}", "x".repeat(100_000)), json!(1))).collect();
    let node = "n".repeat(10 << 20);
    for body in [Value::Object(many), Value::Object(long), json!({ "x".repeat(15 << 20): 1 })] {
        let (status, answer) = desk.post("/threads", body).await;
        assert_eq!(status, 200, "{answer}");
    }
    let run = json!({ "assistant_id": "two", "input": {}, "interrupt_before": [node] });
    assert_eq!(desk.post("/runs/wait", run).await.0, 422);
    desk.stop().await;
}

#[tokio::test]
async fn identity_with_periods_has_its_own_namespaces() {
    let auth = hier_server::auth::Tokens::new([
        ("carol", hier_server::auth::User::new("carol@example.com")),
        ("dave", hier_server::auth::User::new("carol@example%2Ecom")),
    ]);
    let own = open(server().auth(auth)).await;
    assert_eq!(hier_server::auth::User::new("100%.x").store_label(), "100%25%2Ex");
    let item = json!({ "namespace": ["carol@example%2Ecom", "x"], "key": "k", "value": { "a": 1 } });
    assert_eq!(as_user(&own, "carol", Method::PUT, "/store/items", item.clone()).await.0, 204);
    let read = "/store/items?namespace=carol%40example%252Ecom.x&key=k";
    let (status, found) = as_user(&own, "carol", Method::GET, read, json!({})).await;
    assert_eq!((status, &found["value"]), (200, &json!({ "a": 1 })));
    let search = json!({ "namespace_prefix": ["carol@example%2Ecom"] });
    let (_, found) = as_user(&own, "carol", Method::POST, "/store/items/search", search.clone()).await;
    assert_eq!(found["items"].as_array().map(Vec::len), Some(1));
    // No other user has the same label.
    assert_eq!(as_user(&own, "dave", Method::PUT, "/store/items", item).await.0, 403);
    assert_eq!(as_user(&own, "dave", Method::POST, "/store/items/search", search).await.0, 403);
    let plain = json!({ "namespace": ["carol@example.com"], "key": "k", "value": {} });
    let (status, refused) = as_user(&own, "carol", Method::PUT, "/store/items", plain).await;
    assert!(status == 422 && refused["detail"].as_str().is_some_and(|text| text.contains("`%2E`")), "{refused}");
    own.stop().await;
}

#[tokio::test]
async fn wrong_tokens_exhaust_the_limit_of_their_address() {
    let auth = hier_server::auth::Tokens::new([("right", hier_server::auth::User::new("alice"))]);
    let desk = open(server().auth(auth).rate_limit(5)).await;
    let begun = std::time::Instant::now();
    let mut looked_at = 0.0;
    for n in 0..100 {
        let (status, _) = as_user(&desk, &format!("wrong {n}"), Method::POST, "/threads/count", json!({})).await;
        assert!(matches!(status, 401 | 429), "{status}");
        looked_at += f64::from(u8::from(status == 401));
    }
    let most = 5.0 * begun.elapsed().as_secs_f64() + 6.0;
    assert!(looked_at <= most, "{looked_at} tokens were looked at, and not {most}");
    tokio::time::sleep(Duration::from_millis(400)).await;
    assert_eq!(as_user(&desk, "right", Method::POST, "/threads/count", json!({})).await.0, 200);
    desk.stop().await;
}

/// Behind a proxy, all users have one address.
#[tokio::test]
async fn user_at_a_guessers_address_is_not_locked_out() {
    let user = |name: &str| hier_server::auth::User::new(name);
    let auth = hier_server::auth::Tokens::new([("known", user("alice")), ("unknown", user("bob"))]);
    let desk = open(server().auth(auth).rate_limit(20)).await;
    let count = async |token: &str| as_user(&desk, token, Method::POST, "/threads/count", json!({})).await.0;
    assert_eq!(count("known").await, 200);
    let guess = async || {
        let mut read = 0;
        let begun = std::time::Instant::now();
        for n in 0..400 {
            let status = count(&format!("wrong {n}")).await;
            assert!(matches!(status, 401 | 429), "{status}");
            read += i32::from(status == 401);
        }
        (f64::from(read), 20.0 * begun.elapsed().as_secs_f64() + 21.0)
    };
    let work = async || {
        for _ in 0..20 {
            assert_eq!(count("known").await, 200, "alice goes on");
            tokio::time::sleep(Duration::from_millis(60)).await;
        }
    };
    let ((read, most), ()) = tokio::join!(guess(), work());
    assert!(read <= most, "{read} tokens were looked at, and not {most}");
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(count("unknown").await, 200, "a new user is admitted once the guessing stops");
    desk.stop().await;
}

#[tokio::test]
async fn requests_that_wait_on_a_thread_are_limited() {
    let desk = open(Server::new().graph("keep", Keep::compile(), ())).await;
    let thread = desk.thread().await;
    let run =
        |bytes: usize| json!({ "assistant_id": "keep", "input": { "any": "x".repeat(bytes) }, "after_seconds": 1_000 });
    let path = format!("/threads/{thread}/runs");
    for _ in 0..4 {
        assert_eq!(desk.post(&path, run(15 << 20)).await.0, 200);
    }
    let (status, refused) = desk.post(&path, run(15 << 20)).await;
    assert_eq!(status, 429);
    assert!(refused["detail"].as_str().is_some_and(|text| text.contains("67108864 bytes of requests")), "{refused}");
    assert_eq!(desk.post(&path, run(1)).await.0, 200);
    desk.stop().await;
}
