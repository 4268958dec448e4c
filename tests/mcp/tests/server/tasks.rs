//! Calls as tasks.

use std::sync::atomic::Ordering;
use std::time::Duration;

use hier_agents::prelude::*;
use hier_core::Result;
use hier_core::checkpoint::MemorySaver;
use hier_mcp::McpServer;
use serde_json::{Value, json};

use crate::ends::{Fail, threads};
use crate::{Nights, Office, Trip, TripUpdate, accepted, call, post, serve, server};

graph! {
    /// Asks twice.
    Twice<Trip> = Graph { nodes: [ask_twice], edges: [START >> ask_twice >> END] }
}

async fn ask_twice(run: &Run) -> Result<TripUpdate> {
    let Nights { nights: first } = run.interrupt(&json!({"key": "nights", "message": "First?"})).schema().await?;
    let Nights { nights: second } = run.interrupt(&json!({"key": "nights", "message": "Second?"})).schema().await?;
    Ok(Trip::update().booking(format!("{first} and {second}")))
}

/// Sends a request of a client that supports tasks.
pub(crate) async fn ask(url: &str, method: &str, params: Value) -> Value {
    let capable = json!({"extensions": {"io.modelcontextprotocol/tasks": {}}, "elicitation": {"form": {}}});
    post(url, method, params, capable).await
}

/// Starts a task and returns its id.
pub(crate) async fn start(url: &str, tool: &str) -> Value {
    let made = ask(url, "tools/call", json!({"name": tool, "arguments": {"place": "Oslo"}})).await;
    assert_eq!(made["result"]["resultType"], "task", "{made}");
    made["result"]["taskId"].clone()
}

/// Waits until a task has this status, and returns the task.
pub(crate) async fn until(url: &str, id: &Value, status: &str) -> Value {
    loop {
        let task = ask(url, "tasks/get", json!({"taskId": id})).await;
        if task["result"]["status"] == status {
            return task["result"].clone();
        }
        assert!(task["result"]["status"] == "working" || task["result"]["status"] == "input_required", "{task}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Waits until a task asks a question that is not one of these, and returns its key and its message.
pub(crate) async fn next_question(url: &str, id: &Value, known: &[String]) -> (String, Value) {
    loop {
        let task = until(url, id, "input_required").await;
        let asked = task["inputRequests"].as_object().unwrap().clone();
        if let Some((key, request)) = asked.into_iter().find(|(key, _)| !known.contains(key)) {
            return (key, request["params"]["message"].clone());
        }
    }
}

pub(crate) async fn answer(url: &str, id: &Value, key: &str, content: Value) {
    ask(url, "tasks/update", json!({"taskId": id, "inputResponses": accepted(key, content)})).await;
}

#[tokio::test]
async fn long_calls_are_tasks_that_ask_and_are_cancelled() {
    let office = Office::default();
    let url = serve(server(&office).allow_task("book").allow_task("wait")).await;
    let id = start(&url, "book").await;
    let (nights, asked) = next_question(&url, &id, &[]).await;
    assert_eq!((&*nights, asked), ("nights", json!("How many nights in Oslo?")));
    answer(&url, &id, &nights, json!({"nights": 2})).await;
    let (approval, _) = next_question(&url, &id, &[nights]).await;
    answer(&url, &id, &approval, json!({"decision": "approve"})).await;
    let task = until(&url, &id, "completed").await;
    assert_eq!(task["result"]["structuredContent"]["booking"], "2 nights in Oslo");

    let id = start(&url, "wait").await;
    while office.begun.load(Ordering::SeqCst) < 2 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    ask(&url, "tasks/cancel", json!({"taskId": id})).await;
    until(&url, &id, "cancelled").await;
    while office.dropped.load(Ordering::SeqCst) == 0 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert_eq!(office.dropped.load(Ordering::SeqCst), 1);
    // A client without tasks waits.
    let asked = call(&url, json!({"name": "book", "arguments": {"place": "Rome"}})).await;
    assert_eq!(asked["result"]["resultType"], "input_required", "{asked}");
}

#[tokio::test]
async fn task_asks_a_question_again() {
    let url = serve(McpServer::new().graph("twice", Twice::compile(), ()).allow_task("twice")).await;
    let id = start(&url, "twice").await;
    let mut known = Vec::new();
    // An answer of the wrong form, an answer of the wrong type, and two right answers.
    let answers = [
        ("First?", json!([])),
        ("First?", json!({"nights": "many"})),
        ("First?", json!({"nights": 2})),
        ("Second?", json!({"nights": 3})),
    ];
    for (message, content) in answers {
        let (key, asked) = next_question(&url, &id, &known).await;
        assert_eq!(asked, message);
        answer(&url, &id, &key, content).await;
        known.push(key);
    }
    let task = until(&url, &id, "completed").await;
    assert_eq!(task["result"]["structuredContent"]["booking"], "2 and 3", "{task}");
}

#[tokio::test]
async fn waiting_task_leaves_its_place_and_ends() {
    let saver = MemorySaver::new();
    let url = serve(server(&Office::default()).allow_task("book").saver(saver.clone()).max_calls(1)).await;
    let id = start(&url, "book").await;
    until(&url, &id, "input_required").await;
    let asked = call(&url, json!({"name": "book", "arguments": {"place": "Rome"}})).await;
    assert_eq!(asked["result"]["resultType"], "input_required", "{asked}");

    tokio::time::pause();
    tokio::time::advance(Duration::from_hours(24)).await;
    let task = until(&url, &id, "completed").await;
    assert_eq!(task["result"]["isError"], true, "{task}");
    let text = task["result"]["content"][0]["text"].as_str().unwrap();
    assert!(text.contains("no answer within 86400 s, the limit of `question_timeout`"), "{text}");
    // The other call still waits for its answer.
    assert_eq!(threads(&saver).await.len(), 1);
}

#[tokio::test]
async fn result_of_a_task_is_kept_for_a_day() {
    let url = serve(McpServer::new().graph("fail", Fail::compile(), ()).allow_task("fail")).await;
    let id = start(&url, "fail").await;
    until(&url, &id, "completed").await;
    tokio::time::pause();
    tokio::time::advance(Duration::from_hours(23)).await;
    until(&url, &id, "completed").await;
    tokio::time::advance(Duration::from_hours(1)).await;
    let gone = ask(&url, "tasks/get", json!({"taskId": id})).await;
    assert!(gone["error"]["message"].as_str().unwrap().contains("unknown task"), "{gone}");
}
