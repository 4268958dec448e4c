//! The Agent-User Interaction Protocol. Other people's programs judge it, too: `scripts/peers.sh agui`.

use reqwest::Method;
use serde_json::{Value, json};

use crate::support::{Desk, desk};

pub(crate) fn input(thread: &str, run: &str, more: Value) -> Value {
    let mut input =
        json!({ "threadId": thread, "runId": run, "messages": [], "tools": [], "context": [], "state": {} });
    if let (Some(fields), Value::Object(more)) = (input.as_object_mut(), more) {
        fields.extend(more);
    }
    input
}

pub(crate) async fn events_of(desk: &Desk, graph: &str, input: Value) -> Vec<Value> {
    let response = desk.send(Method::POST, &format!("/agui/{graph}"), &input).await;
    assert_eq!(response.status().as_u16(), 200);
    assert!(response.headers()["content-type"].to_str().expect("text").starts_with("text/event-stream"));
    let text = response.text().await.expect("a body");
    text.split("\n\n")
        .filter_map(|frame| frame.strip_prefix("data: "))
        .map(|data| serde_json::from_str(data).expect("JSON"))
        .collect()
}

fn types(received: &[Value]) -> Vec<&str> {
    received.iter().map(|event| event["type"].as_str().expect("a type")).collect()
}

pub(crate) fn of<'a>(received: &'a [Value], kind: &str) -> Vec<&'a Value> {
    received.iter().filter(|event| event["type"] == kind).collect()
}

#[tokio::test]
async fn run_streams_its_steps_and_its_state() {
    let desk = desk().await;
    let received = events_of(&desk, "two", input("a thread", "a run", json!({ "state": { "n": 1.0 } }))).await;
    assert_eq!(
        (&received[0]["type"], &received[0]["threadId"], &received[0]["runId"]),
        (&json!("RUN_STARTED"), &json!("a thread"), &json!("a run"))
    );
    let steps: Vec<_> = received
        .iter()
        .filter(|event| event["type"].as_str().is_some_and(|kind| kind.starts_with("STEP")))
        .map(|event| (event["type"].as_str(), event["stepName"].as_str()))
        .collect();
    assert_eq!(
        steps,
        [
            (Some("STEP_STARTED"), Some("a")),
            (Some("STEP_FINISHED"), Some("a")),
            (Some("STEP_STARTED"), Some("b")),
            (Some("STEP_FINISHED"), Some("b")),
        ]
    );
    assert_eq!(of(&received, "STATE_SNAPSHOT").len(), 1);
    assert_eq!(of(&received, "STATE_SNAPSHOT")[0]["snapshot"]["n"], 1.0);
    let last = of(&received, "STATE_DELTA").last().expect("a change")["delta"].clone();
    assert!(
        last.as_array().expect("operations").contains(&json!({ "op": "replace", "path": "/n", "value": 4.0 })),
        "{last}"
    );
    assert_eq!(of(&received, "CUSTOM")[0]["value"], json!({ "progress": "a" }));
    let end = received.last().expect("an end");
    assert_eq!((&end["type"], &end["outcome"]), (&json!("RUN_FINISHED"), &json!({ "type": "success" })));
    desk.stop().await;
}

#[tokio::test]
async fn repeated_request_is_the_same_run() {
    let desk = desk().await;
    let once = events_of(&desk, "two", input("t", "r", json!({ "state": { "n": 1.0 } }))).await;
    let again = events_of(&desk, "two", input("t", "r", json!({ "state": { "n": 1.0 } }))).await;
    assert_eq!(once, again);
    // The client returns the state unchanged, so nothing is written twice.
    let next = events_of(&desk, "two", input("t", "r2", json!({ "state": { "n": 5.0, "log": ["a", "b"] } }))).await;
    assert_eq!(of(&next, "STATE_SNAPSHOT")[0]["snapshot"], json!({ "n": 5.0, "log": ["a", "b"] }));
    desk.stop().await;
}

#[tokio::test]
async fn conversation_is_streamed_message_by_message() {
    let desk = desk().await;
    let hello = json!([{ "id": "u1", "role": "user", "content": "hello" }]);
    let received = events_of(&desk, "chat", input("t", "r", json!({ "messages": hello }))).await;
    let kinds = types(&received);
    for kind in [
        "TEXT_MESSAGE_START",
        "TEXT_MESSAGE_CONTENT",
        "TEXT_MESSAGE_END",
        "TOOL_CALL_START",
        "TOOL_CALL_ARGS",
        "TOOL_CALL_END",
    ] {
        assert!(kinds.contains(&kind), "{kind} in {kinds:?}");
    }
    let text: String =
        of(&received, "TEXT_MESSAGE_CONTENT").iter().filter_map(|event| event["delta"].as_str()).collect();
    assert!(text.starts_with("Hello there friend"), "{text}");
    let ids = |kind| of(&received, kind).iter().map(|event| event["messageId"].clone()).collect::<Vec<_>>();
    assert_eq!(ids("TEXT_MESSAGE_START"), ids("TEXT_MESSAGE_END"), "each message that begins ends");
    let messages = &of(&received, "MESSAGES_SNAPSHOT").last().expect("the conversation")["messages"];
    assert_eq!((&messages[0]["role"], &messages[0]["id"]), (&json!("user"), &json!("u1")));
    assert!(messages.as_array().expect("messages").iter().all(|message| message["id"].is_string()));
    desk.stop().await;
}

#[tokio::test]
async fn question_is_an_interrupt_and_its_answer_a_resume() {
    let desk = desk().await;
    let asked = events_of(&desk, "hitl", input("t", "r1", json!({ "state": { "n": 1.0 } }))).await;
    let outcome = &asked.last().expect("an end")["outcome"];
    assert_eq!(outcome["type"], "interrupt");
    let interrupt = &outcome["interrupts"][0];
    assert_eq!((&interrupt["message"], &interrupt["reason"]), (&json!("ok?"), &json!("question")));
    assert_eq!(interrupt["metadata"]["value"], json!({ "question": "ok?", "n": 2.0 }));
    let ignored = events_of(&desk, "hitl", input("t", "r2", json!({}))).await;
    assert_eq!(types(&ignored), ["RUN_STARTED", "RUN_ERROR"]);
    assert_eq!(ignored[1]["code"], "INTERRUPT_PENDING");
    let unknown = json!([{ "interruptId": "the first", "status": "resolved", "payload": "yes" }]);
    let (status, error) = desk.post("/agui/hitl", input("t", "r3", json!({ "resume": unknown }))).await;
    assert!(status == 422 && error.to_string().contains("`the first` is not the id of an interrupt"), "{error}");
    let resume = json!([{ "interruptId": interrupt["id"], "status": "resolved", "payload": "yes" }]);
    let end = events_of(&desk, "hitl", input("t", "r3", json!({ "resume": resume, "parentRunId": "r1" }))).await;
    assert_eq!(end[0]["parentRunId"], "r1");
    assert_eq!(end.last().expect("an end")["outcome"], json!({ "type": "success" }));
    let last =
        of(&end, "STATE_SNAPSHOT").into_iter().chain(of(&end, "STATE_DELTA")).last().expect("the state").to_string();
    assert!(last.contains("ask:yes") || end.iter().any(|event| event.to_string().contains("ask:yes")), "{last}");
    desk.stop().await;
}

#[tokio::test]
async fn failure_ends_the_run_with_an_error() {
    let desk = desk().await;
    let failed = events_of(&desk, "boom", input("t", "r", json!({ "state": { "n": 1.0 } }))).await;
    let end = failed.last().expect("an end");
    assert_eq!((&end["type"], &end["code"]), (&json!("RUN_ERROR"), &json!("NodeError")));
    assert!(end["message"].as_str().expect("a text").contains("boom!"), "{end}");
    for (graph, body, status) in [
        ("nope", input("t", "r", json!({})), 422),
        ("two", json!({ "threadId": "t" }), 422),
        ("two", input("t", "r9", json!({ "state": { "zzz": 1 } })), 422),
        ("chat", input("t2", "r", json!({ "messages": [{ "role": "user" }] })), 422),
    ] {
        let (found, error) = desk.post(&format!("/agui/{graph}"), body.clone()).await;
        assert_eq!(found, status, "{body}: {error}");
    }
    desk.stop().await;
}
