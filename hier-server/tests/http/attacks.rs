//! Hostile requests are refused with an error that names the field, and break nothing.

use reqwest::Method;
use serde_json::{Value, json};

use crate::graphs::server;
use crate::support::{Desk, open};

const NOBODY: &str = "f18eab19-198c-49f1-a31b-c873cff5a3ea";

/// Values that most fields do not take.
fn values() -> Vec<Value> {
    vec![
        json!(5),
        json!(-1),
        json!(1e300),
        json!(u64::MAX),
        json!("x"),
        json!("\u{0}"),
        json!(true),
        json!([]),
        json!([null]),
        json!([["x"]]),
        json!({}),
        json!({ "configurable": 5 }),
        json!({ "a": { "$gt": "x" } }),
        Value::Null,
    ]
}

/// Routes with the fields of their bodies, and other required parts of a body.
fn routes(thread: &str, assistant: &str, cron: &str) -> Vec<(Method, String, Value, &'static [&'static str])> {
    const RUN: &[&str] = &[
        "assistant_id",
        "input",
        "command",
        "config",
        "context",
        "metadata",
        "stream_mode",
        "stream_subgraphs",
        "stream_resumable",
        "interrupt_before",
        "interrupt_after",
        "webhook",
        "feedback_keys",
        "after_seconds",
        "durability",
        "checkpoint_during",
        "checkpoint",
        "checkpoint_id",
        "multitask_strategy",
        "if_not_exists",
        "on_completion",
        "on_disconnect",
    ];
    const SEARCH: &[&str] =
        &["ids", "metadata", "values", "status", "limit", "offset", "sort_by", "sort_order", "select", "extract"];
    const ASSISTANT: &[&str] =
        &["assistant_id", "graph_id", "config", "context", "metadata", "name", "description", "if_exists"];
    const CRON: &[&str] =
        &["schedule", "timezone", "end_time", "enabled", "on_run_completed", "input", "metadata", "config", "webhook"];
    let run = json!({ "assistant_id": "two", "input": { "n": 1 } });
    let cron_body = json!({ "assistant_id": "two", "schedule": "0 0 1 1 *" });
    let post = Method::POST;
    let at = |tail: &str| format!("/threads/{thread}{tail}");
    vec![
        (post.clone(), "/threads".into(), json!({}), &["thread_id", "metadata", "if_exists", "ttl", "supersteps"]),
        (post.clone(), "/threads/search".into(), json!({}), SEARCH),
        (post.clone(), "/threads/count".into(), json!({}), SEARCH),
        (post.clone(), "/threads/prune".into(), json!({ "thread_ids": [] }), &["thread_ids", "strategy"]),
        (Method::PATCH, at(""), json!({}), &["metadata", "ttl"]),
        (post.clone(), at("/state"), json!({}), &["values", "as_node", "checkpoint", "checkpoint_id"]),
        (post.clone(), at("/state/checkpoint"), json!({}), &["checkpoint", "subgraphs", "select"]),
        (post.clone(), at("/history"), json!({}), &["limit", "before", "metadata", "checkpoint", "select"]),
        (post.clone(), at("/runs/wait"), run.clone(), RUN),
        (post.clone(), "/runs/wait".into(), run, RUN),
        (post.clone(), "/runs/cancel".into(), json!({}), &["status", "thread_id", "run_ids"]),
        (post.clone(), "/assistants".into(), json!({ "graph_id": "two" }), ASSISTANT),
        (Method::PATCH, format!("/assistants/{assistant}"), json!({}), ASSISTANT),
        (
            post.clone(),
            "/assistants/search".into(),
            json!({}),
            &["metadata", "graph_id", "name", "limit", "offset", "sort_by", "sort_order", "select"],
        ),
        (post.clone(), format!("/assistants/{assistant}/versions"), json!({}), &["limit", "offset", "metadata"]),
        (post.clone(), format!("/assistants/{assistant}/latest"), json!({}), &["version"]),
        (post.clone(), "/runs/crons".into(), cron_body.clone(), CRON),
        (post.clone(), at("/runs/crons"), cron_body, CRON),
        (Method::PATCH, format!("/runs/crons/{cron}"), json!({}), CRON),
        (
            post.clone(),
            "/runs/crons/search".into(),
            json!({}),
            &["assistant_id", "thread_id", "enabled", "limit", "offset", "sort_by", "sort_order", "select", "metadata"],
        ),
        (
            Method::PUT,
            "/store/items".into(),
            json!({ "namespace": ["u"], "key": "k", "value": {} }),
            &["namespace", "key", "value", "index", "ttl"],
        ),
        (Method::DELETE, "/store/items".into(), json!({ "namespace": ["u"], "key": "k" }), &["namespace", "key"]),
        (
            post.clone(),
            "/store/items/search".into(),
            json!({}),
            &["namespace_prefix", "filter", "limit", "offset", "query", "refresh_ttl"],
        ),
        (post.clone(), "/store/namespaces".into(), json!({}), &["prefix", "suffix", "max_depth", "limit", "offset"]),
        (post.clone(), at("/signals/go"), json!({}), &["value", "id"]),
        (
            post.clone(),
            at("/stream/events"),
            json!({ "channels": ["values"] }),
            &["channels", "namespaces", "depth", "since"],
        ),
        (post, at("/commands"), json!({ "id": 1, "method": "run.start", "params": {} }), &["id", "method", "params"]),
    ]
}

/// A desk on a file, which is stricter than memory, with a thread that has run, an assistant and a cron.
async fn filed() -> (tempfile::TempDir, Desk, [String; 3]) {
    let folder = tempfile::tempdir().expect("a folder");
    let desk = open(server().database(format!("sqlite:{}", folder.path().join("desk.db").display()))).await;
    let thread = desk.thread().await;
    desk.post(&format!("/threads/{thread}/runs/wait"), json!({ "assistant_id": "two", "input": { "n": 1 } })).await;
    let id = |(status, made): (u16, Value), name: &str| {
        assert_eq!(status, 200, "{made}");
        made[name].as_str().expect("an id").to_owned()
    };
    let assistant = id(desk.post("/assistants", json!({ "graph_id": "two" })).await, "assistant_id");
    let cron = json!({ "assistant_id": "two", "schedule": "0 0 1 1 *" });
    let cron = id(desk.post("/runs/crons", cron).await, "cron_id");
    (folder, desk, [thread, assistant, cron])
}

/// The status and the text of a refusal; streams are not read.
async fn refusal(desk: &Desk, method: Method, path: &str, body: &Value) -> (u16, String) {
    let response = desk.send(method, path, body).await;
    let status = response.status().as_u16();
    if status == 200 { (status, String::new()) } else { (status, response.text().await.expect("a body")) }
}

#[tokio::test]
async fn error_names_a_field_of_the_wrong_type() {
    let (_folder, desk, [thread, assistant, cron]) = filed().await;
    let mut wrong = Vec::new();
    for (method, path, body, fields) in routes(&thread, &assistant, &cron) {
        for field in fields {
            for value in values() {
                let mut body = body.clone();
                body[*field] = value.clone();
                let (status, text) = refusal(&desk, method.clone(), &path, &body).await;
                // The text of LangGraph.
                let says = |words: &str| text.contains(words);
                let is_known =
                    says("Namespace label") || says("search by meaning") || says("Invalid assistant") || says("Node ");
                let is_named = status < 400 || matches!(status, 404 | 409) || is_known || says(field);
                if status >= 500 || !is_named {
                    wrong.push(format!("{method} {path} `{field}`: {value}: {status} {text}"));
                }
            }
        }
    }
    desk.stop().await;
    assert!(wrong.is_empty(), "{}:\n{}", wrong.len(), wrong.join("\n"));
}

#[tokio::test]
async fn invalid_json_and_invalid_ids_are_refused() {
    let (_folder, desk, [thread, ..]) = filed().await;
    let (_, runs) = desk.get(&format!("/threads/{thread}/runs")).await;
    let run = runs[0]["run_id"].as_str().expect("a run");
    let mut wrong = Vec::new();
    let deep = "[".repeat(100_000);
    for raw in [&b"{not json"[..], b"", b"\xff\xfe", b"{\"a\":1e999}", b"5", b"\"x\"", b"[]", deep.as_bytes()] {
        for path in
            ["/threads/search", "/runs/wait", "/runs/batch", "/assistants", "/store/items/search", "/runs/crons"]
        {
            let sent =
                desk.client.post(format!("{}{path}", desk.base)).body(raw.to_vec()).send().await.expect("an answer");
            // An optional body can be an empty object, and an empty batch has no runs.
            let is_allowed = (raw.is_empty() && path.ends_with("search")) || (raw == b"[]" && path.ends_with("batch"));
            let status = sent.status().as_u16();
            if !(status == 422 || (is_allowed && status == 200)) {
                wrong.push(format!("{path} {}: {status}", String::from_utf8_lossy(&raw[..raw.len().min(20)])));
            }
        }
    }
    let large = vec![b' '; 17 << 20];
    let sent = desk.client.post(format!("{}/threads", desk.base)).body(large).send().await;
    // The connection may be gone before all of it is sent.
    assert!(sent.is_err() || sent.is_ok_and(|sent| sent.status().as_u16() == 413));
    for path in [
        "/threads/x",
        "/threads/%ff",
        "/threads/%00",
        "/threads/x/state",
        "/threads/x/history",
        "/threads/x/runs",
        "/assistants/x",
        "/runs/crons/x",
        "/threads/T/runs/x",
        "/threads/T/runs/x/join",
        "/threads/T/runs/x/stream",
        "/threads/T/state/x",
        "/threads/T/runs?limit=0",
        "/threads/T/runs?limit=x",
        "/threads/T/runs?limit=-1",
        "/threads/T/runs?limit=99999999999999999999",
        "/threads/T/runs?offset=x",
        "/threads/T/runs?status=x",
        "/threads/T/history?limit=x",
        "/threads/T/history?before=x",
        "/threads/T/history?limit=0",
        "/threads/T/state?subgraphs=x",
        "/threads/T/stream?stream_modes=x",
        "/threads/T/runs/R/stream?stream_mode=x",
        "/threads/T/runs/R/join?cancel_on_disconnect=x",
        "/store/items",
        "/store/items?key=%ff",
        "/assistants/two/graph?xray=x",
        "/threads/N",
        "/threads/N/state",
        "/threads/N/history",
        "/threads/N/runs",
        "/threads/N/runs/N",
        "/threads/N/runs/N/join",
        "/threads/T/runs/N",
        "/threads/T/runs/N/join",
        "/threads/T/runs/N/stream",
        "/assistants/N",
        "/assistants/N/schemas",
        "/runs/crons/N",
        "/threads/T/state/N",
        "/threads/N/stream",
        "/threads/N/mail",
    ] {
        let path = path
            .replace("/T", &format!("/{thread}"))
            .replace("/R", &format!("/{run}"))
            .replace("/N", &format!("/{NOBODY}"));
        let (status, text) = refusal(&desk, Method::GET, &path, &Value::Null).await;
        if !(400..500).contains(&status) || text.is_empty() {
            wrong.push(format!("{path}: {status} {text}"));
        }
    }
    assert_eq!(desk.get("/ok").await.0, 200);
    desk.stop().await;
    assert!(wrong.is_empty(), "{}:\n{}", wrong.len(), wrong.join("\n"));
}

#[tokio::test]
async fn second_runs_and_deletions_leave_nothing_stuck() {
    let (_folder, desk, _) = filed().await;
    let slow = |strategy: &str| json!({ "assistant_id": "slow", "input": { "n": 60 }, "multitask_strategy": strategy });
    let thread = desk.thread().await;
    let runs = format!("/threads/{thread}/runs");
    let (_, first) = desk.post(&runs, slow("enqueue")).await;
    let (status, refused) = desk.post(&runs, slow("reject")).await;
    assert!(
        status == 409 && refused["detail"].as_str().is_some_and(|text| text.contains("already running")),
        "{refused}"
    );
    // All at once: each is added or refused, and none is lost.
    let added =
        ["enqueue", "interrupt", "rollback", "reject", "enqueue"].map(|strategy| desk.post(&runs, slow(strategy)));
    for (status, answer) in futures_util::future::join_all(added).await {
        assert!(matches!(status, 200 | 409), "{status} {answer}");
    }
    let first = first["run_id"].as_str().expect("an id");
    // It was interrupted, or rolled back and is gone.
    let (status, joined) = desk.get(&format!("{runs}/{first}/join")).await;
    assert!(matches!(status, 200 | 404), "{status} {joined}");
    let (status, error) = desk.post(&format!("{runs}/{first}/cancel"), json!({})).await;
    assert!(
        status == 404 && error["detail"].as_str().is_some_and(|text| text.contains("No matching runs")),
        "{status} {error}"
    );
    let last = desk.post(&runs, slow("interrupt")).await.1["run_id"].as_str().expect("an id").to_owned();
    assert_eq!(desk.ask(Method::DELETE, &format!("{runs}/{last}"), Value::Null).await.0, 409, "cancel it first");
    let (status, _) = desk.post(&format!("{runs}/{last}/cancel?wait=1"), json!({})).await;
    assert_eq!(status, 200);
    let (status, _) = desk.post(&format!("{runs}/{last}/cancel"), json!({})).await;
    assert_eq!(status, 404, "it has ended");
    // A thread is deleted with its running run, and waiting requests end.
    let gone = desk.post(&runs, slow("enqueue")).await.1["run_id"].as_str().expect("an id").to_owned();
    let (join, path) = (format!("{runs}/{gone}/join"), format!("/threads/{thread}"));
    let both = async { tokio::join!(desk.get(&join), desk.ask(Method::DELETE, &path, Value::Null)) };
    let both = tokio::time::timeout(std::time::Duration::from_secs(30), both).await;
    let (joined, deleted) = both.expect("no request waits for a deleted thread");
    assert!(matches!(joined.0, 200 | 404) && deleted.0 == 204, "{joined:?} {deleted:?}");
    for path in [
        format!("{runs}/{gone}/join"),
        format!("{runs}/{gone}/stream"),
        format!("/threads/{thread}/state"),
        runs.clone(),
    ] {
        assert_eq!(desk.get(&path).await.0, 404, "{path}");
    }
    assert_eq!(desk.post(&runs, slow("enqueue")).await.0, 404);
    desk.stop().await;
}

#[tokio::test]
async fn commands_and_other_protocols_leave_nothing_stuck() {
    const RUN: &[&str] =
        &["assistant_id", "input", "config", "metadata", "multitaskStrategy", "command", "stream_mode"];
    let (_folder, desk, [thread, ..]) = filed().await;
    let run = json!({ "assistant_id": "two", "input": { "n": 1 } });
    let answer = json!({ "interrupt_id": "x", "namespace": [], "response": 1 });
    let commands = [
        ("run.start", run, RUN),
        ("input.respond", answer, &["interrupt_id", "namespace", "response", "responses", "update", "goto", "config"]),
        ("input.inject", json!({ "message": {} }), &["message", "namespace"]),
        ("state.get", json!({}), &["namespace"]),
        ("state.listCheckpoints", json!({}), &["namespace", "limit", "before"]),
        ("state.fork", json!({ "checkpoint_id": NOBODY }), &["checkpoint_id", "input", "config"]),
        ("agent.getTree", json!({}), &["run_id"]),
        ("subscription.subscribe", json!({ "channels": ["values"] }), &["channels", "namespaces", "depth", "since"]),
    ];
    let mut wrong = Vec::new();
    for (method, params, fields) in commands {
        for (field, value) in fields.iter().flat_map(|field| values().into_iter().map(move |value| (field, value))) {
            let mut params = params.clone();
            params[*field] = value.clone();
            let command = json!({ "id": 1, "method": method, "params": params });
            let (status, received) = desk.post(&format!("/threads/{thread}/commands"), command).await;
            let is_answer =
                received["type"] == "success" || (received["type"] == "error" && received["message"].is_string());
            if status != 200 || !is_answer || received["message"].as_str().is_some_and(|text| text.starts_with("500")) {
                wrong.push(format!("{method} `{field}`: {value}: {status} {received}"));
            }
        }
    }
    let agui = json!({
        "threadId": "t", "runId": "r", "messages": [], "state": {}, "tools": [], "context": [], "forwardedProps": {},
    });
    let fields = ["threadId", "runId", "messages", "state", "tools", "context", "forwardedProps", "resume"];
    for (field, value) in fields.iter().flat_map(|field| values().into_iter().map(move |value| (field, value))) {
        let mut body = agui.clone();
        // Each has its own thread, because a run of another would interfere.
        body["threadId"] = json!(format!("{field} {value}"));
        body[*field] = value.clone();
        let (status, text) = refusal(&desk, Method::POST, "/agui/two", &body).await;
        if !(status == 200 || (400..500).contains(&status) && !text.is_empty()) {
            wrong.push(format!("agui `{field}`: {value}: {status} {text}"));
        }
    }
    assert_eq!(desk.get("/ok").await.0, 200);
    desk.stop().await;
    assert!(wrong.is_empty(), "{}:\n{}", wrong.len(), wrong.join("\n"));
}
