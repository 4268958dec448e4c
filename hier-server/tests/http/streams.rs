//! The first protocol: streams of runs and of threads.

use std::sync::Arc;

use hier_agents::prelude::*;
use hier_core::runs::{MemoryRuns, RunQuery, RunStatus, RunStore};
use hier_core::store::MemoryStore;
use hier_testkit::ScriptedModel;
use reqwest::Method;
use serde_json::{Value, json};

use crate::graphs::server;
use crate::support::{SentEvent, desk, names, open, parse, said};

fn input(graph: &str, modes: &Value) -> Value {
    json!({ "assistant_id": graph, "input": { "n": 1.0 }, "stream_mode": modes })
}

#[tokio::test]
async fn each_mode_sends_the_events_of_langgraph() {
    let desk = desk().await;
    let thread = desk.thread().await;
    let values = desk.stream(&thread, input("two", &json!(["values"]))).await;
    assert_eq!(names(&values), ["metadata", "values", "values", "values"]);
    assert_eq!(values[0].data["attempt"], 1);
    assert_eq!(values[3].data, json!({ "n": 4.0, "log": ["a", "b"] }));
    assert!(values.iter().all(|received| received.id.is_none()), "only resumable streams have ids");

    let thread = desk.thread().await;
    let updates = desk.stream(&thread, input("two", &json!("updates"))).await;
    assert_eq!(
        said(&updates, "updates"),
        [&json!({ "a": { "n": 2.0, "log": ["a"] } }), &json!({ "b": { "n": 4.0, "log": ["b"] } })]
    );

    let thread = desk.thread().await;
    let custom = desk.stream(&thread, input("two", &json!(["custom"]))).await;
    assert_eq!(said(&custom, "custom"), [&json!({ "progress": "a" })]);

    let thread = desk.thread().await;
    let tasks = desk.stream(&thread, input("two", &json!(["tasks"]))).await;
    let tasks = said(&tasks, "tasks");
    assert_eq!(tasks.len(), 4);
    assert_eq!((&tasks[0]["name"], &tasks[0]["triggers"]), (&json!("a"), &json!(["branch:to:a"])));
    assert_eq!(tasks[0]["metadata"]["graph_id"], "two");
    assert_eq!((&tasks[1]["result"], &tasks[1]["error"]), (&json!({ "n": 2.0, "log": ["a"] }), &Value::Null));
    assert_eq!(tasks[0]["id"], tasks[1]["id"]);
    desk.stop().await;
}

#[tokio::test]
async fn checkpoints_are_those_of_the_history() {
    let desk = desk().await;
    let thread = desk.thread().await;
    let received = desk.stream(&thread, input("two", &json!(["debug", "checkpoints"]))).await;
    let debug = said(&received, "debug");
    let ids: Vec<_> = debug
        .iter()
        .filter(|event| event["type"] == "checkpoint")
        .map(|event| &event["payload"]["checkpoint"])
        .collect();
    let (_, history) = desk.post(&format!("/threads/{thread}/history"), json!({ "limit": 10 })).await;
    let mut listed: Vec<_> = history.as_array().unwrap().iter().map(|state| &state["checkpoint"]).collect();
    listed.reverse();
    assert_eq!(ids, listed);
    let first = said(&received, "checkpoints")[0];
    assert_eq!((&first["metadata"]["step"], &first["metadata"]["source"]), (&json!(-1), &json!("input")));
    assert_eq!(first["config"]["configurable"]["thread_id"], json!(thread));
    desk.stop().await;
}

#[tokio::test]
async fn question_ends_the_stream_with_the_state() {
    let desk = desk().await;
    let thread = desk.thread().await;
    let received = desk.stream(&thread, input("hitl", &json!(["values", "updates"]))).await;
    let asked = &said(&received, "updates")[1]["__interrupt__"][0];
    assert_eq!(asked["value"], json!({ "question": "ok?", "n": 2.0 }));
    let last = received.last().unwrap();
    assert_eq!((last.event.as_str(), &last.data["n"]), ("values", &json!(2.0)));
    assert_eq!(last.data["__interrupt__"][0], *asked);
    let answer = json!({ "assistant_id": "hitl", "command": { "resume": "yes" }, "stream_mode": ["updates"] });
    let received = desk.stream(&thread, answer).await;
    assert_eq!(said(&received, "updates")[0], &json!({ "ask": { "log": ["ask:yes"] } }));
    desk.stop().await;
}

#[tokio::test]
async fn breakpoint_has_no_question() {
    let desk = desk().await;
    let thread = desk.thread().await;
    let mut body = input("two", &json!(["updates"]));
    body["interrupt_before"] = json!(["b"]);
    let received = desk.stream(&thread, body).await;
    assert_eq!(
        said(&received, "updates"),
        [&json!({ "a": { "n": 2.0, "log": ["a"] } }), &json!({ "__interrupt__": [] })]
    );
    assert_eq!(desk.get(&format!("/threads/{thread}")).await.1["status"], "interrupted");
    desk.stop().await;
}

#[tokio::test]
async fn failure_is_the_last_event() {
    let desk = desk().await;
    let thread = desk.thread().await;
    let received = desk.stream(&thread, input("boom", &json!(["values"]))).await;
    assert_eq!(names(&received), ["metadata", "values", "error"]);
    assert!(received[2].data["message"].as_str().unwrap().contains("boom!"));
    let mut limited = input("two", &json!(["values"]));
    limited["config"] = json!({ "recursion_limit": 1 });
    let thread = desk.thread().await;
    let received = desk.stream(&thread, limited).await;
    assert_eq!(received.last().unwrap().data["error"], "GraphRecursionError");
    desk.stop().await;
}

#[tokio::test]
async fn events_of_subgraphs_have_their_namespaces() {
    let desk = desk().await;
    let thread = desk.thread().await;
    let mut body = input("sub", &json!(["updates"]));
    let received = desk.stream(&thread, body.clone()).await;
    assert_eq!(names(&received), ["metadata", "updates", "updates"], "not unless asked for");
    body["stream_subgraphs"] = true.into();
    let thread = desk.thread().await;
    let received = desk.stream(&thread, body).await;
    let inner: Vec<&SentEvent> =
        received.iter().filter(|received| received.event.starts_with("updates|child:")).collect();
    assert_eq!(inner.len(), 1, "{received:?}");
    assert_eq!(inner[0].data, json!({ "in1": { "n": 12.0, "log": ["in1"] } }));
    desk.stop().await;
}

#[tokio::test]
async fn messages_of_models_are_streamed_in_two_forms() {
    let desk = desk().await;
    let body = |modes: Value| json!({ "assistant_id": "chat", "input": { "messages": [{ "role": "user", "content": "hi" }] }, "stream_mode": modes });
    let thread = desk.thread().await;
    let received = desk.stream(&thread, body(json!(["messages-tuple"]))).await;
    let chunks = said(&received, "messages");
    let first = chunks.iter().find(|chunk| chunk[0]["type"] == "AIMessageChunk").expect("a piece");
    let id = &first[0]["id"];
    let spoken: String =
        chunks.iter().filter(|chunk| chunk[0]["id"] == *id).filter_map(|chunk| chunk[0]["content"].as_str()).collect();
    assert_eq!(spoken, "Hello there friend");
    assert!(first[1]["langgraph_node"].is_string());
    let (_, state) = desk.get(&format!("/threads/{thread}/state")).await;
    let messages = state["values"]["messages"].as_array().unwrap();
    assert_eq!((&messages[0]["type"], &messages[0]["content"]), (&json!("human"), &json!("hi")));
    let said_by_ai = messages.iter().find(|message| message["type"] == "ai").unwrap();
    assert_eq!((&said_by_ai["id"], &said_by_ai["content"]), (id, &json!("Hello there friend")));

    let thread = desk.thread().await;
    let received = desk.stream(&thread, body(json!(["messages"]))).await;
    assert!(names(&received).contains(&"messages/metadata"));
    let partial: Vec<_> =
        said(&received, "messages/partial").iter().map(|list| list[0]["content"].as_str().unwrap()).collect();
    assert_eq!(partial.last(), Some(&"Hello there friend"));
    assert!(partial.windows(2).all(|two| two[1].starts_with(two[0])), "{partial:?}");
    desk.stop().await;
}

graph! { Answers<MessagesState> = Agent {} }

graph! { Around<MessagesState, BaseContext> = Graph { nodes: [inner = Answers], edges: [START >> inner >> END] } }

/// Without the messages of a subgraph, the client receives those that the subgraph returns to the root graph.
#[tokio::test]
async fn messages_of_subgraphs_are_streamed_on_request() {
    let model = ScriptedModel::reacting(|_| Message::assistant("Hello"));
    let desk = open(server().graph("around", Around::compile(), BaseContext::new(model))).await;
    let run = async |mode: &str, subgraphs: bool| {
        let mut body = input("around", &json!(mode));
        body["input"] = json!({ "messages": [{ "role": "user", "content": "hi" }] });
        body["stream_subgraphs"] = subgraphs.into();
        desk.stream(&desk.thread().await, body).await
    };
    let received = run("messages-tuple", false).await;
    assert_eq!(names(&received), ["metadata", "messages"]);
    let message = &received[1].data;
    assert_eq!((&message[0]["type"], &message[0]["content"]), (&json!("ai"), &json!("Hello")), "{message}");
    assert_eq!(message[1]["langgraph_node"], "inner", "{message}");
    assert_eq!(names(&run("messages", false).await), ["metadata", "messages/metadata", "messages/complete"]);
    let received = run("messages-tuple", true).await;
    let pieces = received.iter().filter(|received| received.event.starts_with("messages|inner:"));
    let text: String = pieces.filter_map(|received| received.data[0]["content"].as_str()).collect();
    assert_eq!(text, "Hello", "{received:?}");
    // The mode `events` reports the models of all graphs.
    let received = run("events", false).await;
    assert!(said(&received, "events").iter().any(|event| event["event"] == "on_chat_model_stream"), "{received:?}");
    desk.stop().await;
}

/// A client that asks for both takes pieces from `messages` until it has learned of a model by `events`: it would show the first
/// piece twice.
#[tokio::test]
async fn events_of_a_piece_come_before_its_message() {
    let desk = desk().await;
    let thread = desk.thread().await;
    let modes = json!(["events", "values", "updates", "messages-tuple"]);
    let body = json!({ "assistant_id": "chat", "input": { "messages": [{ "role": "user", "content": "hi" }] }, "stream_mode": modes });
    let received = desk.stream(&thread, body).await;
    let mut spoken = received.iter().filter_map(|received| match &*received.event {
        "messages" if received.data[0]["type"] == "AIMessageChunk" => Some("messages".to_owned()),
        "events" => {
            received.data["event"].as_str().filter(|event| event.starts_with("on_chat_model")).map(str::to_owned)
        }
        _ => None,
    });
    let first: Vec<String> = spoken.by_ref().take(4).collect();
    assert_eq!(first, ["on_chat_model_start", "on_chat_model_stream", "messages", "on_chat_model_stream"]);
    desk.stop().await;
}

#[tokio::test]
async fn resumable_stream_is_joined_from_any_event_on() {
    let desk = desk().await;
    let thread = desk.thread().await;
    let mut body = input("two", &json!(["values", "updates"]));
    body["stream_resumable"] = true.into();
    let response = desk.send(Method::POST, &format!("/threads/{thread}/runs/stream"), &body).await;
    let header = |name: &str| response.headers()[name].to_str().unwrap().to_owned();
    let location = header("location");
    assert_eq!(location, format!("{}/stream", header("content-location")));
    assert_eq!((header("cache-control").as_str(), header("x-accel-buffering").as_str()), ("no-store", "no"));
    let all = parse(&response.text().await.unwrap());
    assert_eq!(all.len(), 6);
    let from = async |id: &str| {
        let request = desk.client.get(format!("{}{location}", desk.base)).header("last-event-id", id);
        parse(&request.send().await.unwrap().text().await.unwrap())
    };
    assert_eq!(from("-1").await, all);
    assert_eq!(from(all[2].id.as_ref().unwrap()).await, all[3..]);
    assert_eq!(from("garbage").await, []);
    let ids: std::collections::BTreeSet<_> = all.iter().map(|received| received.id.clone()).collect();
    assert_eq!(ids.len(), all.len(), "no two events have one id");
    let live = desk.events(Method::GET, &location, Value::Null).await;
    assert_eq!(live, [], "nothing happens any more");
    desk.stop().await;
}

#[tokio::test]
async fn stream_of_a_thread_spans_its_runs() {
    let desk = desk().await;
    let thread = desk.thread().await;
    let mut open = desk
        .send(
            Method::GET,
            &format!("/threads/{thread}/stream?stream_modes=run_modes&stream_mode=state_update"),
            &Value::Null,
        )
        .await;
    desk.post(&format!("/threads/{thread}/runs/wait"), input("two", &json!(["values"]))).await;
    desk.post(&format!("/threads/{thread}/state"), json!({ "values": { "n": 9.0 }, "as_node": "b" })).await;
    let mut text = String::new();
    let received = desk.until(&mut open, &mut text, |received| names(received).contains(&"state_update")).await;
    assert_eq!(names(&received), ["metadata", "values", "values", "values", "metadata", "state_update"]);
    assert_eq!(received[4].data["status"], "run_done");
    assert_eq!(received[5].data["state"]["values"]["n"], 9.0);
    drop(open);
    desk.stop().await;
}

#[tokio::test]
async fn stream_of_a_thread_reports_the_end_of_each_cancelled_run() {
    let desk = desk().await;
    for (action, delay) in [("interrupt", 0), ("rollback", 0), ("interrupt", 600), ("rollback", 600)] {
        let thread = desk.thread().await;
        let path = format!("/threads/{thread}");
        let follow = format!("{path}/stream?stream_modes=lifecycle");
        let mut open = desk.send(Method::GET, &follow, &Value::Null).await;
        let body = json!({ "assistant_id": "slow", "input": { "n": 600.0 }, "after_seconds": delay });
        let (_, run) = desk.post(&format!("{path}/runs"), body).await;
        let run = run["run_id"].as_str().expect("an id");
        let cancel = format!("{path}/runs/{run}/cancel?wait=1&action={action}");
        assert_eq!(desk.post(&cancel, Value::Null).await.0, 200);
        let is_end = |received: &SentEvent| received.data == json!({ "status": "run_done", "run_id": run });
        let mut text = String::new();
        let received = desk.until(&mut open, &mut text, |received| received.iter().any(is_end)).await;
        assert_eq!(received.iter().filter(|received| is_end(received)).count(), 1, "{action}, {delay}");
        // A client that reads the thread later receives the same end.
        let again = desk.client.get(format!("{}{follow}", desk.base)).header("last-event-id", "-1").send().await;
        let (mut again, mut text) = (again.expect("a stream"), String::new());
        desk.until(&mut again, &mut text, |received| received.iter().any(is_end)).await;
    }
    desk.stop().await;
}

#[tokio::test]
async fn run_is_cancelled_on_disconnect_if_requested() {
    let desk = desk().await;
    let thread = desk.thread().await;
    let mut body =
        json!({ "assistant_id": "slow", "input": { "n": 60.0 }, "stream_mode": "values", "on_disconnect": "cancel" });
    let mut open = desk.send(Method::POST, &format!("/threads/{thread}/runs/stream"), &body).await;
    let mut text = String::new();
    desk.until(&mut open, &mut text, |received| received.len() > 2).await;
    drop(open);
    let path = format!("/threads/{thread}/runs");
    let (_, runs) = desk.get(&path).await;
    let join = format!("{path}/{}/join", runs[0]["run_id"].as_str().unwrap());
    desk.get(&join).await;
    assert_eq!(desk.get(&path).await.1[0]["status"], "interrupted");
    body["on_disconnect"] = "continue".into();
    body["input"]["n"] = 0.2.into();
    drop(desk.send(Method::POST, &format!("/threads/{thread}/runs/stream"), &body).await);
    let (_, runs) = desk.get(&path).await;
    let join = format!("{path}/{}/join", runs[0]["run_id"].as_str().unwrap());
    desk.get(&join).await;
    assert_eq!(desk.get(&path).await.1[0]["status"], "success");
    desk.stop().await;
}

#[tokio::test]
async fn stream_of_a_deleted_run_ends_with_an_error() {
    let desk = desk().await;
    let thread = desk.thread().await;
    let body = json!({ "assistant_id": "slow", "input": { "n": 60.0 }, "stream_mode": "values" });
    let (mut text, path) = (String::new(), format!("/threads/{thread}"));
    let mut answer = desk.send(Method::POST, &format!("{path}/runs/stream"), &body).await;
    desk.until(&mut answer, &mut text, |received| received.len() > 2).await;
    assert_eq!(desk.ask(Method::DELETE, &path, Value::Null).await.0, 204);
    text.push_str(&answer.text().await.expect("the rest of the answer"));
    let last = parse(&text).pop().expect("an event");
    assert!(last.event == "error" && last.data.to_string().contains("the run was deleted"), "{last:?}");
    desk.stop().await;
}

/// A restart cancelled the streamed runs that say `cancel`, as if their clients had gone.
#[tokio::test]
async fn stopping_server_requeues_runs_that_cancel_on_disconnect() {
    for (path, stream) in [("stream", true), ("wait", false)] {
        let store = Arc::new(MemoryRuns::new());
        let desk = open(server().storage(store.clone(), Arc::new(MemoryStore::default()))).await;
        let thread = desk.thread().await;
        let body = json!({ "assistant_id": "slow", "input": { "n": 60.0 }, "stream_mode": "values", "on_disconnect": "cancel" });
        let mut answer = desk.send(Method::POST, &format!("/threads/{thread}/runs/{path}"), &body).await;
        if stream {
            desk.until(&mut answer, &mut String::new(), |received| received.len() > 2).await;
        }
        desk.stop().await;
        answer.text().await.expect("the rest of the answer");
        // A run of a disconnected client is cancelled in a separate task.
        for _ in 0..1_000 {
            tokio::task::yield_now().await;
        }
        let runs = store.driver().runs(RunQuery::thread(&*thread)).await.expect("the runs");
        let states: Vec<_> = runs.iter().map(|run| (run.status, run.cancel)).collect();
        assert_eq!(states, [(RunStatus::Pending, None)], "{path}");
    }
}

#[tokio::test]
async fn events_name_the_parents_of_a_node_and_unfinished_nodes_have_no_end() {
    let desk = desk().await;
    let thread = desk.thread().await;
    let mut body = input("sub", &json!("events"));
    body["stream_subgraphs"] = true.into();
    let received = desk.stream(&thread, body).await;
    let about = |name: &str| -> Vec<Value> {
        said(&received, "events").into_iter().filter(|event| event["name"] == name).cloned().collect()
    };
    let (child, inside) = (about("child"), about("in1"));
    assert_eq!(inside.len(), 3, "{inside:?}");
    for event in &inside {
        assert_eq!(event["parent_ids"], json!([received[0].data["run_id"], child[0]["run_id"]]), "{event}");
        assert_eq!(event["metadata"]["langgraph_node"], "in1", "{event}");
        let place = format!("child:{}|in1:{}", child[0]["run_id"].as_str().unwrap(), event["run_id"].as_str().unwrap());
        assert_eq!(event["metadata"]["langgraph_checkpoint_ns"], place.as_str(), "{event}");
    }
    assert_eq!(inside[1]["data"], json!({ "chunk": { "n": 12.0, "log": ["in1"] } }));
    let end = json!({ "output": { "n": 12.0, "log": ["in1"] }, "input": { "n": 2.0, "log": ["a"] } });
    assert_eq!(inside[2]["data"], end);
    // A node that asks, or fails, has not come to its end.
    for (graph, node) in [("hitl", "ask"), ("boom", "bad")] {
        let thread = desk.thread().await;
        let received = desk.stream(&thread, input(graph, &json!("events"))).await;
        let of: Vec<_> = said(&received, "events").into_iter().filter(|event| event["name"] == node).collect();
        assert_eq!(of.iter().map(|event| &event["event"]).collect::<Vec<_>>(), ["on_chain_start"], "{of:?}");
    }
    desk.stop().await;
}
