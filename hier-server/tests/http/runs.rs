//! Runs: waited for, listed, cancelled, queued.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use hier_core::runs::{MemoryRuns, Run, RunQuery, RunStore};
use hier_core::store::MemoryStore;
use reqwest::Method;
use serde_json::{Value, json};

use crate::graphs::server;
use crate::support::{Desk, desk, open};

async fn status_of(desk: &Desk, thread: &str, run: &Value) -> String {
    let (status, run) = desk.get(&format!("/threads/{thread}/runs/{}", run["run_id"].as_str().unwrap())).await;
    if status == 404 { "gone".to_owned() } else { run["status"].as_str().unwrap().to_owned() }
}

/// Waits until a run has begun.
async fn begun(desk: &Desk, thread: &str, run: &Value) {
    for _ in 0..500 {
        let state = desk.get(&format!("/threads/{thread}/state")).await.1;
        if state["values"]["log"] == json!(["pre"]) && status_of(desk, thread, run).await == "running" {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("the run does not begin");
}

#[tokio::test]
async fn run_asks_and_is_answered() {
    let desk = desk().await;
    let thread = desk.thread().await;
    let wait = format!("/threads/{thread}/runs/wait");
    let (_, asked) = desk.post(&wait, json!({ "assistant_id": "hitl", "input": { "n": 1.0 } })).await;
    let question = &asked["__interrupt__"][0];
    assert_eq!(question["value"], json!({ "question": "ok?", "n": 2.0 }));
    assert_eq!(question["id"].as_str().map(str::len), Some(32));
    assert!(question.get("response_schema").is_some());
    let (_, row) = desk.get(&format!("/threads/{thread}")).await;
    assert_eq!(row["status"], "interrupted");
    let listed: Vec<_> = row["interrupts"].as_object().unwrap().values().collect();
    assert_eq!(*listed[0], json!([{ "id": question["id"], "value": question["value"] }]));
    let (_, state) = desk.get(&format!("/threads/{thread}/state")).await;
    assert_eq!((&state["next"], &state["tasks"][0]["name"]), (&json!(["ask"]), &json!("ask")));
    let answer =
        json!({ "assistant_id": "hitl", "command": { "resume": { question["id"].as_str().unwrap(): "yes" } } });
    assert_eq!(desk.post(&wait, answer).await.1, json!({ "n": 4.0, "log": ["a", "ask:yes", "b"] }));
    assert_eq!(desk.get(&format!("/threads/{thread}")).await.1["status"], "idle");
    desk.stop().await;
}

#[tokio::test]
async fn failed_run_responds_with_status_200() {
    let desk = desk().await;
    let thread = desk.thread().await;
    let (status, end) = desk
        .post(&format!("/threads/{thread}/runs/wait"), json!({ "assistant_id": "boom", "input": { "n": 1.0 } }))
        .await;
    assert_eq!(status, 200);
    assert!(end["__error__"]["message"].as_str().unwrap().contains("boom!"), "{end}");
    let (_, row) = desk.get(&format!("/threads/{thread}")).await;
    assert_eq!(row["status"], "error");
    assert_eq!(row["error"], end["__error__"]);
    desk.stop().await;
}

#[tokio::test]
async fn run_in_the_background_can_be_joined_again_and_again() {
    let desk = desk().await;
    let thread = desk.thread().await;
    let response = desk
        .send(
            Method::POST,
            &format!("/threads/{thread}/runs"),
            &json!({ "assistant_id": "two", "input": { "n": 1.0 }, "metadata": { "a": 1 } }),
        )
        .await;
    let location = response.headers()["content-location"].to_str().unwrap().to_owned();
    let run: Value = response.json().await.unwrap();
    assert_eq!(location, format!("/threads/{thread}/runs/{}", run["run_id"].as_str().unwrap()));
    assert_eq!((&run["status"], &run["metadata"]["a"]), (&json!("pending"), &json!(1)));
    for _ in 0..2 {
        assert_eq!(desk.get(&format!("{location}/join")).await.1, json!({ "n": 4.0, "log": ["a", "b"] }));
    }
    assert_eq!(status_of(&desk, &thread, &run).await, "success");
    let (_, listed) = desk.get(&format!("/threads/{thread}/runs?limit=5&status=success")).await;
    assert_eq!(listed.as_array().map(Vec::len), Some(1));
    assert_eq!(desk.ask(Method::DELETE, &location, Value::Null).await.0, 204);
    assert_eq!(desk.get(&location).await, (404, json!({ "detail": "Not Found" })));
    desk.stop().await;
}

#[tokio::test]
async fn run_is_cancelled() {
    let desk = desk().await;
    let thread = desk.thread().await;
    let (_, run) =
        desk.post(&format!("/threads/{thread}/runs"), json!({ "assistant_id": "slow", "input": { "n": 60.0 } })).await;
    begun(&desk, &thread, &run).await;
    let path = format!("/threads/{thread}/runs/{}", run["run_id"].as_str().unwrap());
    assert_eq!(desk.ask(Method::DELETE, &path, Value::Null).await.0, 409, "it has not ended");
    assert_eq!(desk.post(&format!("{path}/cancel?wait=1"), Value::Null).await.0, 200);
    assert_eq!(status_of(&desk, &thread, &run).await, "interrupted");
    let (_, row) = desk.get(&format!("/threads/{thread}")).await;
    assert_eq!(row["status"], "interrupted", "its stored work stays and waits");
    assert_eq!(row["error"]["error"], "UserInterrupt", "{row}");
    let (_, end) = desk
        .post(&format!("/threads/{thread}/runs/wait"), json!({ "assistant_id": "slow", "input": { "n": 0.01 } }))
        .await;
    assert_eq!(end["n"], 0.01, "{end}");
    assert_eq!(desk.get(&format!("/threads/{thread}")).await.1["error"], Value::Null, "the next run ended well");
    assert_eq!(desk.post(&format!("{path}/cancel"), Value::Null).await.0, 404, "it has ended");
    desk.stop().await;
}

#[tokio::test]
async fn run_is_rolled_back() {
    let desk = desk().await;
    let thread = desk.thread().await;
    let (_, run) =
        desk.post(&format!("/threads/{thread}/runs"), json!({ "assistant_id": "slow", "input": { "n": 60.0 } })).await;
    begun(&desk, &thread, &run).await;
    let path = format!("/threads/{thread}/runs/{}", run["run_id"].as_str().unwrap());
    assert_eq!(desk.post(&format!("{path}/cancel?wait=1&action=rollback"), Value::Null).await, (200, json!({})));
    assert_eq!(status_of(&desk, &thread, &run).await, "gone");
    assert_eq!(desk.get(&format!("/threads/{thread}/state")).await.1["values"], json!({}));
    let (_, row) = desk.get(&format!("/threads/{thread}")).await;
    assert_eq!(
        (&row["status"], &row["values"], &row["error"]["error"]),
        (&json!("idle"), &Value::Null, &json!("UserRollback"))
    );
    desk.stop().await;
}

#[tokio::test]
async fn second_run_is_refused_or_waits() {
    let desk = desk().await;
    let thread = desk.thread().await;
    let path = format!("/threads/{thread}/runs");
    let (_, first) = desk.post(&path, json!({ "assistant_id": "slow", "input": { "n": 60.0 } })).await;
    begun(&desk, &thread, &first).await;
    let second =
        |strategy: &str| json!({ "assistant_id": "slow", "input": { "n": 0.01 }, "multitask_strategy": strategy });
    let (status, error) = desk.post(&path, second("reject")).await;
    let busy = "Thread is already running a task. Wait for it to finish or choose a different multitask strategy.";
    assert_eq!((status, error), (409, json!({ "detail": busy })));
    let (_, waiting) = desk.post(&path, second("enqueue")).await;
    assert_eq!(status_of(&desk, &thread, &waiting).await, "pending");
    let (_, third) = desk.post(&path, second("interrupt")).await;
    let (_, end) = desk.get(&format!("{path}/{}/join", third["run_id"].as_str().unwrap())).await;
    assert_eq!(end["n"], 0.01, "{end}");
    assert_eq!(status_of(&desk, &thread, &first).await, "interrupted");
    desk.stop().await;
}

#[tokio::test]
async fn runs_without_a_thread() {
    let desk = desk().await;
    let body = json!({ "assistant_id": "two", "input": { "n": 1.0 } });
    assert_eq!(desk.post("/runs/wait", body.clone()).await.1, json!({ "n": 4.0, "log": ["a", "b"] }));
    let (_, batch) = desk.post("/runs/batch", json!([body, body])).await;
    assert_eq!(batch.as_array().map(Vec::len), Some(2));
    let (status, error) = desk.post("/runs/batch", json!([body, { "assistant_id": "nope" }])).await;
    assert!(status == 422 && error["detail"].as_str().unwrap().starts_with("run 1 of the batch: "), "{error}");
    assert_eq!(desk.post("/threads/count", json!({})).await.1, json!(0), "their threads are free");
    desk.stop().await;
}

/// A mistake in any run of a batch adds none of them.
#[tokio::test]
async fn batch_is_added_whole_or_not_at_all() {
    let store = Arc::new(MemoryRuns::new());
    let desk = open(server().storage(store.clone(), Arc::new(MemoryStore::default())).without_worker()).await;
    let body = json!({ "assistant_id": "two", "input": { "n": 1.0 } });
    for wrong in [
        json!({ "assistant_id": "nope" }),
        json!({ "assistant_id": "two", "input": { "m": 1 } }),
        json!({ "assistant_id": "two", "after_seconds": -1 }),
        json!({ "assistant_id": "two", "checkpoint": { "checkpoint_id": "x" } }),
        json!({ "assistant_id": "two", "webhook": "http://169.254.169.254/x" }),
    ] {
        for place in 0..3 {
            let mut batch = vec![body.clone(); 2];
            batch.insert(place, wrong.clone());
            let (status, error) = desk.post("/runs/batch", batch.into()).await;
            let detail = error["detail"].as_str().unwrap_or_default();
            assert!(status == 422 && detail.starts_with(&format!("run {place} of the batch: ")), "{error}");
            assert!(detail.ends_with("no run of the batch was added"), "{error}");
        }
    }
    assert!(store.driver().runs(RunQuery::default()).await.unwrap().is_empty());
    let (status, made) = desk.post("/runs/batch", json!([body, body])).await;
    let ids = |runs: &[Run]| runs.iter().map(|run| run.id.to_string()).collect::<BTreeSet<_>>();
    let received: BTreeSet<_> = made.as_array().unwrap().iter().filter_map(|run| run["run_id"].as_str()).collect();
    assert_eq!(status, 200, "{made}");
    assert!(ids(&store.driver().runs(RunQuery::default()).await.unwrap()).iter().map(String::as_str).eq(received));
    desk.stop().await;
}

/// A search for interrupted threads finds one whose last answer was mistyped.
#[tokio::test]
async fn question_stays_open_after_a_mistyped_answer() {
    let desk = desk().await;
    let thread = desk.thread().await;
    let wait = format!("/threads/{thread}/runs/wait");
    let (status, asked) = desk.post(&wait, json!({ "assistant_id": "hitl", "input": { "n": 1.0 } })).await;
    assert!(status == 200 && asked["__interrupt__"][0]["value"]["question"] == "ok?", "{asked}");
    let (_, failed) = desk.post(&wait, json!({ "assistant_id": "hitl", "command": { "resume": 5 } })).await;
    assert!(failed["__error__"]["message"].as_str().unwrap().starts_with("5 is not an answer to"), "{failed}");
    let (_, state) = desk.get(&format!("/threads/{thread}/state")).await;
    assert_eq!(state["interrupts"][0]["value"]["question"], "ok?", "{state}");
    let (_, row) = desk.get(&format!("/threads/{thread}")).await;
    assert_eq!(row["status"], "error", "{row}");
    let of_tasks: Vec<&Value> = row["interrupts"].as_object().unwrap().values().collect();
    assert_eq!(of_tasks[0][0]["value"]["question"], "ok?", "{row}");
    let (_, ended) = desk.post(&wait, json!({ "assistant_id": "hitl", "command": { "resume": "yes" } })).await;
    assert_eq!(ended["log"], json!(["a", "ask:yes", "b"]), "{ended}");
    desk.stop().await;
}

#[tokio::test]
async fn errors_name_the_wrong_field() {
    let desk = desk().await;
    let thread = desk.thread().await;
    let wait = format!("/threads/{thread}/runs/wait");
    for (body, status, named) in [
        (json!({ "input": {} }), 422, "assistant_id"),
        (json!({ "assistant_id": "nope" }), 422, "Invalid assistant: 'nope'. Must be either:"),
        (json!({ "assistant_id": "two", "stream_mode": "zzz" }), 422, "`stream_mode`"),
        (json!({ "assistant_id": "two", "input": { "m": 1 } }), 422, "`input.m`"),
        (json!({ "assistant_id": "two", "input": { "n": "one" } }), 422, "`input.n`"),
        (json!({ "assistant_id": "two", "input": {}, "interrupt_before": ["c"] }), 422, "`interrupt_before`"),
        (json!({ "assistant_id": "two", "command": { "goto": "c" } }), 422, "`goto`"),
        (json!({ "assistant_id": "two", "command": "go" }), 422, "`command`"),
        (json!({ "assistant_id": "two", "after_seconds": -1 }), 422, "`after_seconds`"),
        (json!({ "assistant_id": "two", "checkpoint": { "checkpoint_id": "x" } }), 422, "`checkpoint.checkpoint_id`"),
        (json!({ "assistant_id": "two", "multitask_strategy": "fight" }), 422, "`multitask_strategy`"),
        (json!({ "assistant_id": "two", "imput": {} }), 422, "unknown field `imput`: did you mean `input`?"),
        (
            json!({ "assistant_id": "two", "command": { "resum": 1 } }),
            422,
            "`command`: unknown field `resum`: did you mean `resume`?",
        ),
        (json!({ "assistant_id": "two", "durability": "never" }), 422, "`durability`"),
        (json!({ "assistant_id": "two", "webhook": "http://169.254.169.254/x" }), 422, "`webhook`"),
    ] {
        let (got, error) = desk.post(&wait, body.clone()).await;
        let detail = error["detail"].as_str().unwrap_or_default();
        assert!(got == status && detail.contains(named), "{body}: {got} {error}");
    }
    let unknown = "/threads/f18eab19-198c-49f1-a31b-c873cff5a3ea/runs/wait";
    let body = json!({ "assistant_id": "two", "input": { "n": 1.0 } });
    assert_eq!(desk.post(unknown, body.clone()).await, (404, json!({ "detail": "Thread or assistant not found." })));
    let mut create = body;
    create["if_not_exists"] = "create".into();
    assert_eq!(desk.post(unknown, create).await.0, 200);
    let response = desk.client.post(format!("{}{wait}", desk.base)).body("{").send().await.unwrap();
    assert_eq!(response.status().as_u16(), 422);
    assert_eq!(response.json::<Value>().await.unwrap(), json!({ "detail": "Invalid JSON in request body" }));
    assert_eq!(desk.get("/nope").await, (404, json!({ "detail": "Not Found" })));
    assert_eq!(
        desk.ask(Method::PUT, "/threads/search", json!({})).await,
        (405, json!({ "detail": "Method Not Allowed" }))
    );
    desk.stop().await;
}

#[tokio::test]
async fn metrics_count_the_queue_and_runs_that_need_a_worker() {
    let desk = open(server().without_worker()).await;
    let queue = async || desk.get("/metrics?format=json").await.1["queue"].clone();
    let names = ["max", "med"].map(|name| format!("pending_runs_wait_time_{name}_secs"));
    let unblocked = "pending_unblocked_runs_wait_time_max_secs";
    let idle = queue().await;
    assert_eq!((&idle["n_pending"], &idle["n_running"], &idle[unblocked]), (&json!(0), &json!(0), &Value::Null));
    let thread = desk.thread().await;
    let path = format!("/threads/{thread}/runs");
    let run = json!({ "assistant_id": "two", "input": { "n": 1.0 } });
    let mut delayed = run.clone();
    delayed["after_seconds"] = 3600.into();
    desk.post(&path, delayed).await;
    let waits = queue().await;
    assert_eq!((&waits["n_pending"], &waits[&names[0]]), (&json!(1), &Value::Null), "its time has not come: {waits}");
    desk.post(&path, run.clone()).await;
    desk.post(&path, run).await;
    let waits = queue().await;
    assert_eq!((&waits["n_pending"], &waits["n_running"]), (&json!(3), &json!(0)));
    let [max, med] = names.map(|name| waits[name].as_f64().expect("seconds"));
    assert!(
        max >= med && waits[unblocked].as_f64() == Some(max),
        "the first of its thread has waited longest: {waits}"
    );
    let (_, text) = desk.get("/metrics").await;
    assert!(text.as_str().unwrap().contains("hier_runs_waiting_seconds "), "{text}");
    desk.stop().await;
}

#[tokio::test]
async fn runs_are_cancelled_by_their_ids_and_by_their_status() {
    let desk = desk().await;
    let mut runs = Vec::new();
    for _ in 0..2 {
        let thread = desk.thread().await;
        let body = json!({ "assistant_id": "slow", "input": { "n": 60.0 } });
        let (_, run) = desk.post(&format!("/threads/{thread}/runs"), body).await;
        begun(&desk, &thread, &run).await;
        runs.push((thread, run));
    }
    let [(thread, run), (other, last)] = runs.try_into().expect("two");
    let named = json!({ "thread_id": thread, "run_ids": [run["run_id"]] });
    assert_eq!(desk.post("/runs/cancel", named.clone()).await.0, 204);
    let join = format!("/threads/{thread}/runs/{}/join", run["run_id"].as_str().unwrap());
    assert_eq!(desk.get(&join).await, (200, json!({})));
    assert_eq!(status_of(&desk, &thread, &run).await, "interrupted");
    assert_eq!(status_of(&desk, &other, &last).await, "running", "the other one goes on");
    assert_eq!(desk.post("/runs/cancel", named).await.0, 404, "it has ended");
    assert_eq!(desk.post("/runs/cancel", json!({ "status": "pending" })).await.0, 404, "none waits");
    assert_eq!(desk.post("/runs/cancel?action=rollback", json!({ "status": "running" })).await.0, 204);
    let join = format!("/threads/{other}/runs/{}/join", last["run_id"].as_str().unwrap());
    let (status, _) = desk.get(&join).await;
    assert!(matches!(status, 200 | 404), "{status}");
    assert_eq!(status_of(&desk, &other, &last).await, "gone");
    desk.stop().await;
}

#[tokio::test]
async fn waiting_response_sends_heartbeats() {
    let desk = desk().await;
    let body = json!({ "assistant_id": "slow", "input": { "n": 11.0 } });
    let (thread, other) = (desk.thread().await, desk.thread().await);
    let text = async |thread: &str, face: &str| {
        let response = desk.send(Method::POST, &format!("/threads/{thread}/runs/{face}"), &body).await;
        response.text().await.expect("a body")
    };
    let (stream, wait) = tokio::join!(text(&thread, "stream"), text(&other, "wait"));
    assert!(stream.contains("\n\n: heartbeat\n\n"), "{stream}");
    assert!(wait.starts_with('\n'), "{wait:?}");
    let end = json!({ "n": 11.0, "log": ["pre", "slept"] });
    assert_eq!(serde_json::from_str::<Value>(&wait).ok(), Some(end), "heartbeats are not part of the answer");
    desk.stop().await;
}

/// `RemoteGraph` as a node of a Python graph sends the input of its node again when that graph is resumed.
#[tokio::test]
async fn node_that_is_resumed_elsewhere_continues_its_thread() {
    let desk = desk().await;
    let thread = desk.thread().await;
    let (path, runs) = (format!("/threads/{thread}"), format!("/threads/{thread}/runs/wait"));
    let with = |configurable: Value| json!({ "assistant_id": "hitl", "input": { "n": 1 }, "config": { "configurable": configurable } });
    let (_, first) = desk.post(&runs, with(json!({}))).await;
    let question = first["__interrupt__"][0].clone();
    let id = question["id"].as_str().expect("an id");
    // The answer of the node around it is not sent.
    let (status, again) = desk.post(&runs, with(json!({ "__pregel_resuming": true }))).await;
    assert_eq!((status, &again["__interrupt__"][0]), (200, &question));
    let elsewhere = "0".repeat(32);
    let answers = json!({ "__pregel_resuming": true, "__pregel_resume_map": { elsewhere: "no", id: "yes" } });
    let (_, end) = desk.post(&runs, with(answers.clone())).await;
    assert_eq!(end, json!({ "n": 4.0, "log": ["a", "ask:yes", "b"] }));
    // It has ended: the input begins again.
    let (_, first) = desk.post(&runs, with(answers)).await;
    assert_eq!(first["__interrupt__"][0]["value"]["n"], 2.0, "{first}");
    assert_eq!(desk.get(&path).await.1["config"]["configurable"].get("__pregel_resuming"), None);
    desk.stop().await;
}
