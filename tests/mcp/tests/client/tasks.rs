//! Calls that a server continues as tasks.
//!
//! The server is written against the specification of the extension. It keeps its tasks when a client goes.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::extract::State as Shared;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use axum::{Json, Router};
use hier_agents::prelude::*;
use hier_mcp::{McpClient, McpClientBuilder};
use hier_mcp_tests::agent::{Helper, answers, desk};
use serde_json::{Value, json};
use tokio::net::TcpListener;

use crate::called;

/// The server and its only task.
#[derive(Default)]
pub(crate) struct Office {
    /// The address of the server.
    pub(crate) url: String,
    /// The requests, as their methods.
    heard: Vec<String>,
    /// The state that `tasks/get` returns: a status with its fields.
    state: Value,
    /// The number of the next requests that fail.
    failing: usize,
    /// True if the server has lost the task.
    lost: bool,
}

pub(crate) type Served = Arc<Mutex<Office>>;

async fn answer(Shared(office): Shared<Served>, Json(message): Json<Value>) -> Response {
    let mut office = office.lock().unwrap();
    let method = message["method"].as_str().unwrap_or_default().to_owned();
    office.heard.push(method.clone());
    if office.failing > 0 && method == "tasks/get" {
        office.failing -= 1;
        return StatusCode::BAD_GATEWAY.into_response();
    }
    let task = |state: &Value| {
        let mut task = json!({
            "taskId": "t-1", "status": "working", "createdAt": "2026-11-26T10:00:00Z",
            "lastUpdatedAt": "2026-11-26T10:00:00Z", "ttlMs": null, "pollIntervalMs": 10,
        });
        if let Value::Object(state) = state {
            task.as_object_mut().unwrap().extend(state.clone());
        }
        task
    };
    let result = match &*method {
        "server/discover" => json!({
            "resultType": "complete", "supportedVersions": ["2026-07-28"], "ttlMs": 0, "cacheScope": "private",
            "capabilities": {"tools": {}, "extensions": {"io.modelcontextprotocol/tasks": {}}},
        }),
        "tools/list" => json!({
            "resultType": "complete", "ttlMs": 60_000, "cacheScope": "private",
            "tools": [{"name": "print", "inputSchema": {"type": "object"}}],
        }),
        "tools/call" => {
            let offered = &message["params"]["_meta"]["io.modelcontextprotocol/clientCapabilities"]["extensions"];
            assert!(offered["io.modelcontextprotocol/tasks"].is_object(), "{message}");
            let mut made = task(&Value::Null);
            made["resultType"] = json!("task");
            made
        }
        "tasks/get" | "tasks/update" | "tasks/cancel" if office.lost => {
            let error = json!({"code": -32602, "message": "Task not found"});
            return Json(json!({"jsonrpc": "2.0", "id": message["id"], "error": error})).into_response();
        }
        "tasks/get" => {
            let mut read = task(&office.state);
            read["resultType"] = json!("complete");
            read
        }
        "tasks/update" => {
            let given = &message["params"]["inputResponses"]["sure"];
            office.heard.push(given.to_string());
            json!({"resultType": "complete"})
        }
        "tasks/cancel" => json!({"resultType": "complete"}),
        _ => return StatusCode::ACCEPTED.into_response(),
    };
    Json(json!({"jsonrpc": "2.0", "id": message["id"], "result": result})).into_response()
}

pub(crate) async fn serve() -> (Served, impl Fn() -> McpClientBuilder) {
    let office = Served::default();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/mcp", listener.local_addr().unwrap());
    office.lock().unwrap().url.clone_from(&url);
    let router = Router::new().route("/mcp", post(answer)).with_state(office.clone());
    tokio::spawn(async move { axum::serve(listener, router).await });
    (office, move || McpClient::http("office", &url))
}

pub(crate) fn completed(text: &str) -> Value {
    json!({"status": "completed", "result": {"content": [{"type": "text", "text": text}]}})
}

fn asking() -> Value {
    let schema = json!({"type": "object", "properties": {"sure": {"type": "boolean"}}});
    let params = json!({"mode": "form", "message": "Print?", "requestedSchema": schema});
    json!({"status": "input_required", "inputRequests": {"sure": {"method": "elicitation/create", "params": params}}})
}

pub(crate) fn set(office: &Served, state: Value) {
    office.lock().unwrap().state = state;
}

pub(crate) fn count(office: &Served, method: &str) -> usize {
    office.lock().unwrap().heard.iter().filter(|heard| *heard == method).count()
}

pub(crate) async fn until(office: &Served, method: &str, least: usize) {
    for _ in 0..1_000 {
        if count(office, method) >= least {
            return;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    panic!("no {method} within 5 seconds");
}

#[tokio::test]
async fn result_of_a_task_is_that_of_the_call() {
    let (office, client) = serve().await;
    let client = client().build().unwrap();
    set(&office, completed("printed"));
    assert_eq!(called(&client, "print", json!({})).await.unwrap(), "printed");
    set(&office, json!({"status": "completed", "result": {"content": [], "structuredContent": {"pages": 3}}}));
    assert_eq!(called(&client, "print", json!({})).await.unwrap(), r#"{"pages":3}"#);
    // The model receives failures.
    set(&office, json!({"status": "failed", "error": {"code": -32603, "message": "out of paper"}}));
    assert_eq!(called(&client, "print", json!({})).await.unwrap(), "Error: out of paper");
    set(&office, json!({"status": "cancelled"}));
    assert_eq!(called(&client, "print", json!({})).await.unwrap(), "Error: the server cancelled the call");
    set(&office, json!({"status": "completed", "result": {"content": 7}}));
    let failed = called(&client, "print", json!({})).await.unwrap_err().to_string();
    assert!(failed.contains("invalid response of the MCP server `office` to `tasks/get of print`"), "{failed}");
}

/// The connection fails, then the process ends, then the task does.
#[tokio::test]
async fn task_survives_a_lost_connection_and_a_restart() -> hier_core::Result<()> {
    let (office, builder) = serve().await;
    let helper = Arc::new(Helper::compile().checkpointer(MemorySaver::new()));
    let context = |answer: Message| desk(&builder().build().unwrap(), [answer]);
    let run = {
        let (helper, context) = (helper.clone(), context(Message::call("print", json!({}))));
        tokio::spawn(async move { helper.invoke(Message::user("Go.")).thread("t").context(context).await.map(|_| ()) })
    };
    until(&office, "tasks/get", 2).await;
    office.lock().unwrap().failing = 3;
    let before = count(&office, "tasks/get");
    until(&office, "tasks/get", before + 6).await;
    run.abort();
    assert!(run.await.unwrap_err().is_cancelled());

    set(&office, completed("printed"));
    let out = helper.invoke(()).thread("t").context(context(Message::assistant("Done."))).await?;
    assert_eq!(answers(&out), ["printed"]);
    assert_eq!((count(&office, "tools/call"), count(&office, "tasks/cancel")), (1, 0));
    Ok(())
}

#[tokio::test]
async fn questions_of_a_task_are_answered_once() -> hier_core::Result<()> {
    let (office, builder) = serve().await;
    let helper = Helper::compile().checkpointer(MemorySaver::new());
    let context = |answer: Message| desk(&builder().build().unwrap(), [answer]);
    set(&office, asking());
    let call = Message::call("print", json!({}));
    let out = helper.invoke(Message::user("Go.")).thread("t").context(context(call)).await?;
    let Outcome::Interrupted(asked) = out else { panic!("no question") };
    assert_eq!(asked.questions[0].value["message"], "Print?");
    assert_eq!(count(&office, "tasks/update"), 0);

    // The server shows the question a while longer.
    let waiting = tokio::spawn({
        let office = office.clone();
        async move {
            until(&office, "tasks/update", 1).await;
            let before = count(&office, "tasks/get");
            until(&office, "tasks/get", before + 3).await;
            set(&office, completed("printed"));
        }
    });
    let answer = Command::resume(json!({"sure": true}));
    let out = helper.invoke(answer).thread("t").context(context(Message::assistant("Done."))).await?;
    waiting.await.unwrap();
    assert_eq!(answers(&out), ["printed"]);
    assert_eq!((count(&office, "tools/call"), count(&office, "tasks/update")), (1, 1));
    assert!(office.lock().unwrap().heard.contains(&json!({"action": "accept", "content": {"sure": true}}).to_string()));
    Ok(())
}

#[tokio::test]
async fn lost_and_endless_tasks_are_errors() {
    let (office, builder) = serve().await;
    office.lock().unwrap().lost = true;
    let failed = called(&builder().build().unwrap(), "print", json!({})).await.unwrap_err().to_string();
    assert!(
        failed.contains("no longer has the task of `print`: Task not found; the task may have had effects"),
        "{failed}"
    );
    office.lock().unwrap().lost = false;

    let client = builder().task_timeout(Duration::from_millis(200)).build().unwrap();
    let failed = called(&client, "print", json!({})).await.unwrap_err().to_string();
    assert!(failed.contains("did not respond to `tasks/get of print` within 200 ms"), "{failed}");
    assert_eq!(count(&office, "tasks/cancel"), 1);

    // A server that stays away.
    let client = builder().call_timeout(Duration::from_millis(200)).build().unwrap();
    office.lock().unwrap().failing = usize::MAX;
    called(&client, "print", json!({})).await.unwrap_err();
}
