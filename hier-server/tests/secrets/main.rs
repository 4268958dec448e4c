//! Secret channels over HTTP: a canary that a client sends reaches the nodes, and no response, stream, webhook, span or log.

mod graphs;
mod surface;
mod traces;

use std::time::Duration;

use serde_json::{Value, json};

use graphs::CANARY;
use surface::{Surface, receiver};

/// All modes of the runs API.
const MODES: [&str; 9] =
    ["values", "updates", "tasks", "debug", "checkpoints", "messages", "messages-tuple", "events", "custom"];

fn input() -> Value {
    json!({ "token": CANARY, "keys": [CANARY] })
}

/// Runs a graph in every protocol, and reads what clients, operators and other programs can read afterwards.
#[tokio::test(flavor = "multi_thread")]
async fn canary_is_in_no_output_of_a_server() {
    traces::record();
    let surface = Surface::start().await;
    runs_api(&surface).await;
    v3_protocol(&surface).await;
    agui(&surface).await;
    state_changes(&surface).await;
    errors(&surface).await;
    other_requests(&surface).await;
    webhook(&surface).await;
    surface.stop().await;
    let (traces, count) = traces::recorded();
    assert!(count > 100, "{count} spans and events");
    assert!(traces.contains("vault"), "the spans of runs are recorded");
    graphs::hides("the traces", &traces);
}

/// Reads everything about a thread.
async fn read_thread(surface: &Surface, thread: &str) {
    for path in ["", "/state?subgraphs=true", "/history?limit=100", "/runs?limit=100", "/mail", "/storage"] {
        surface.get(&format!("/threads/{thread}{path}")).await;
    }
    let history = surface.get(&format!("/threads/{thread}/history?limit=100")).await;
    for state in history.as_array().expect("a list") {
        let id = state["checkpoint"]["checkpoint_id"].as_str().expect("an id");
        surface.get(&format!("/threads/{thread}/state/{id}?subgraphs=true")).await;
    }
    let runs = surface.get(&format!("/threads/{thread}/runs?limit=100")).await;
    for run in runs.as_array().expect("a list") {
        let path = format!("/threads/{thread}/runs/{}", run["run_id"].as_str().expect("an id"));
        surface.get(&path).await;
        surface.get(&format!("{path}/join")).await;
        surface.get(&format!("{path}/stream?stream_mode=values")).await;
    }
    studio(surface, thread).await;
    surface.post("/threads/search", json!({ "ids": [thread] })).await;
    let copy = surface.post(&format!("/threads/{thread}/copy"), json!({})).await;
    surface.get(&format!("/threads/{}", copy["thread_id"].as_str().expect("an id"))).await;
}

async fn studio(surface: &Surface, thread: &str) {
    let base = format!("/studio/api/threads/{thread}");
    surface.get("/studio/api/about").await;
    surface.get("/studio/api/threads").await;
    surface.get(&base).await;
    let log = surface.open(&format!("{base}/events"), Duration::from_millis(300)).await;
    assert!(log.contains("\"mode\""), "{log}");
    surface.get("/studio/api/graphs/vault").await;
    for namespace in surface.namespaces(thread).await {
        let list = surface.get(&format!("{base}/checkpoints?ns={namespace}")).await;
        for checkpoint in list["checkpoints"].as_array().expect("a list") {
            let id = checkpoint["id"].as_str().expect("an id");
            surface.get(&format!("{base}/checkpoints/{id}?ns={namespace}")).await;
        }
    }
    let checkpoint = surface.get(&format!("{base}/checkpoints/latest")).await;
    let fork = surface.post(&format!("{base}/fork"), json!({ "checkpoint": checkpoint["id"] })).await;
    let fork = fork["thread_id"].as_str().expect("an id").to_owned();
    surface.get(&format!("/threads/{fork}")).await;
    surface.get(&format!("/threads/{fork}/state")).await;
}

async fn runs_api(surface: &Surface) {
    let thread = surface.thread().await;
    let run = json!({
        "assistant_id": "vault", "input": input(), "stream_mode": MODES, "stream_subgraphs": true,
        "stream_resumable": true,
    });
    let stream = surface.text("POST", &format!("/threads/{thread}/runs/stream"), &run).await;
    for event in ["event: values", "event: updates", "event: tasks", "event: debug", "event: checkpoints", "on_chain"] {
        assert!(stream.contains(event), "{event} in {stream}");
    }
    // The graph asks whether the lengths are right.
    let asked = surface.get(&format!("/threads/{thread}/state")).await;
    assert_eq!(asked["values"]["lengths"], json!([CANARY.len(), CANARY.len(), CANARY.len()]), "{asked}");
    read_thread(surface, &thread).await;
    let answer = json!({
        "assistant_id": "vault", "stream_mode": MODES, "stream_subgraphs": true,
        "command": { "resume": 2, "update": { "token": format!("{CANARY}!") } },
    });
    let stream = surface.text("POST", &format!("/threads/{thread}/runs/stream"), &answer).await;
    assert!(stream.contains("event: values"), "{stream}");
    let state = surface.get(&format!("/threads/{thread}/state")).await;
    assert_eq!(state["next"], json!([]), "{state}");
    read_thread(surface, &thread).await;
    // A state that a client sends to a node.
    let sent = json!({
        "assistant_id": "vault", "stream_mode": MODES, "stream_subgraphs": true,
        "command": { "goto": [{ "node": "inner", "input": input() }] },
    });
    surface.text("POST", &format!("/threads/{thread}/runs/stream"), &sent).await;
    read_thread(surface, &thread).await;
    surface.text("GET", &format!("/threads/{thread}/stream"), &Value::Null).await;
}

async fn v3_protocol(surface: &Surface) {
    let thread = surface.thread().await;
    let start = json!({ "id": 1, "method": "run.start", "params": { "assistant_id": "vault", "input": input() } });
    let started = surface.post(&format!("/threads/{thread}/commands"), start).await;
    assert_eq!(started["type"], "success", "{started}");
    let channels = ["values", "updates", "messages", "tools", "lifecycle", "input", "checkpoints", "tasks", "custom"];
    let events = surface
        .open_with(&format!("/threads/{thread}/stream/events"), json!({ "channels": channels }), Duration::from_secs(1))
        .await;
    for event in ["values", "updates", "checkpoints", "tasks", "input"] {
        assert!(events.contains(&format!("event: {event}")), "{event} in {events}");
    }
    for (method, params) in [("state.get", json!({})), ("state.listCheckpoints", json!({ "limit": 10 }))] {
        let command = json!({ "id": 2, "method": method, "params": params });
        surface.post(&format!("/threads/{thread}/commands"), command).await;
    }
    read_thread(surface, &thread).await;
}

async fn agui(surface: &Surface) {
    let run = json!({
        "threadId": "agui", "runId": "one", "messages": [], "tools": [], "context": [], "state": input(),
        "forwardedProps": {},
    });
    let stream = surface.text("POST", "/agui/vault", &run).await;
    assert!(stream.contains("STATE_SNAPSHOT") && stream.contains("RUN_FINISHED"), "{stream}");
}

async fn state_changes(surface: &Surface) {
    let thread = surface.thread().await;
    surface.post(&format!("/threads/{thread}/runs/wait"), json!({ "assistant_id": "vault", "input": input() })).await;
    for update in [
        json!({ "values": { "token": CANARY }, "as_node": "inner" }),
        json!({ "values": [["token", CANARY], ["keys", [CANARY]]] }),
        // The decoder would quote the value.
        json!({ "values": { "pin": CANARY } }),
        json!({ "values": { "keys": CANARY } }),
        // The reducer would quote the value.
        json!({ "values": { "checked": CANARY } }),
    ] {
        surface.post(&format!("/threads/{thread}/state"), update).await;
    }
    let history = json!({
        "metadata": { "graph_id": "vault" },
        "supersteps": [{ "updates": [{ "values": { "token": CANARY }, "as_node": "__start__" }] }],
    });
    let made = surface.post("/threads", history).await;
    read_thread(surface, made["thread_id"].as_str().unwrap_or_else(|| panic!("{made}"))).await;
    read_thread(surface, &thread).await;
}

/// Nodes, reducers and inputs that fail.
async fn errors(surface: &Surface) {
    for (graph, input) in [
        ("fails", input()),
        ("panics", input()),
        ("misfits", input()),
        ("vault", json!({ "pin": CANARY })),
        ("vault", json!({ "checked": CANARY })),
        ("vault", json!({ "keys": { "$overwrite": CANARY } })),
    ] {
        let thread = surface.thread().await;
        let run = json!({
            "assistant_id": graph, "input": input, "stream_mode": MODES, "stream_subgraphs": true,
        });
        surface.text("POST", &format!("/threads/{thread}/runs/stream"), &run).await;
        surface.post(&format!("/threads/{thread}/runs/wait"), run).await;
        surface.get(&format!("/threads/{thread}")).await;
        surface.get(&format!("/threads/{thread}/runs")).await;
        surface.get(&format!("/studio/api/threads/{thread}")).await;
        surface.get(&format!("/studio/api/threads/{thread}/checkpoints/latest")).await;
    }
}

async fn other_requests(surface: &Surface) {
    let run = json!({ "assistant_id": "vault", "input": input(), "command": null });
    surface.post("/runs/batch", json!([run, run])).await;
    surface.post("/runs", run.clone()).await;
    let cron = json!({ "assistant_id": "vault", "schedule": "0 0 1 1 *", "input": input() });
    surface.post("/runs/crons", cron).await;
    let sent = json!({ "goto": { "node": "inner", "input": input() }, "update": input() });
    let cron = json!({ "assistant_id": "vault", "schedule": "0 0 1 1 *", "command": sent });
    let cron = surface.post("/runs/crons", cron).await;
    if let Some(id) = cron["cron_id"].as_str() {
        surface.get(&format!("/runs/crons/{id}")).await;
    }
    surface.post("/runs/crons/search", json!({})).await;
    surface.get("/metrics").await;
    surface.post("/assistants/search", json!({})).await;
    let schemas = surface.get("/assistants/vault/schemas").await;
    let schemas = if schemas["state_schema"].is_null() { surface.schemas("vault").await } else { schemas };
    assert_eq!(schemas["state_schema"]["properties"]["token"]["writeOnly"], true, "{schemas}");
}

async fn webhook(surface: &Surface) {
    let (address, mut received) = receiver().await;
    for graph in ["vault", "fails"] {
        let run = json!({ "assistant_id": graph, "input": input(), "webhook": address });
        surface.post("/runs/wait", run).await;
        let body =
            tokio::time::timeout(Duration::from_mins(1), received.recv()).await.expect("in time").expect("a body");
        assert!(body.contains("run_id"), "{body}");
        graphs::hides("a webhook", &body);
    }
}
