//! The second protocol.

use hier_agents::prelude::*;
use reqwest::Method;
use serde_json::{Value, json};

use crate::graphs::{Hitl, Inner, Line, Sub};
use crate::support::{Desk, SentEvent, desk, open};

const THREAD: &str = "48d6f4e1-ea21-4b3c-901c-f6ebfd376bdc";

async fn command(desk: &Desk, method: &str, params: Value) -> Value {
    let body = json!({ "id": 7, "method": method, "params": params });
    let (status, answer) = desk.post(&format!("/threads/{THREAD}/commands"), body).await;
    assert_eq!((status, &answer["id"]), (200, &json!(7)), "{answer}");
    answer
}

/// The events of the thread until one of this method and event.
async fn events(desk: &Desk, request: Value, last: &str, times: usize) -> Vec<SentEvent> {
    let mut open = desk.send(Method::POST, &format!("/threads/{THREAD}/stream/events"), &request).await;
    let mut text = String::new();
    let is_last = |received: &SentEvent| {
        received.event == "lifecycle"
            && received.data["params"]["data"]["event"] == last
            && received.data["params"]["namespace"] == json!([])
    };
    desk.until(&mut open, &mut text, |received| received.iter().filter(|received| is_last(received)).count() >= times)
        .await
}

fn all() -> Value {
    json!(["values", "updates", "messages", "tools", "lifecycle", "input", "checkpoints", "tasks", "custom"])
}

fn data(received: &[SentEvent], method: &str) -> Vec<Value> {
    received
        .iter()
        .filter(|received| received.event == method)
        .map(|received| received.data["params"]["data"].clone())
        .collect()
}

#[tokio::test]
async fn run_is_streamed_from_start_to_end() {
    let desk = desk().await;
    let started = command(&desk, "run.start", json!({ "assistant_id": "two", "input": { "n": 1.0 } })).await;
    assert_eq!(started["type"], "success");
    let run = started["result"]["run_id"].as_str().unwrap().to_owned();
    let received = events(&desk, json!({ "channels": all() }), "completed", 1).await;
    let first = &received[0].data;
    assert_eq!(first["event_id"], json!(format!("synth:{run}:lc||running")));
    assert_eq!(first["params"]["data"], json!({ "event": "running", "graph_name": "two" }));
    assert_eq!(data(&received, "values").last(), Some(&json!({ "n": 4.0, "log": ["a", "b"] })));
    assert_eq!(data(&received, "updates")[0], json!({ "node": "a", "values": { "n": 2.0, "log": ["a"] } }));
    let numbers: Vec<u64> = received.iter().map(|received| received.data["seq"].as_u64().unwrap()).collect();
    assert!(numbers.windows(2).all(|two| two[0] < two[1]), "{numbers:?}");
    // A client that requests less gets the same events with the same numbers.
    let values =
        events(&desk, json!({ "channels": ["values", "lifecycle"], "since": numbers[1] }), "completed", 1).await;
    let expected: Vec<_> = received
        .iter()
        .filter(|received| {
            matches!(&*received.event, "values" | "lifecycle") && received.data["seq"].as_u64() > Some(numbers[1])
        })
        .cloned()
        .collect();
    assert_eq!(values, expected);
    desk.stop().await;
}

/// Aegra 353, 435: the clients of the second protocol could not connect, since a stream needed a run, and a run a thread.
#[tokio::test]
async fn stream_starts_before_its_thread_and_spans_its_runs() {
    let desk = desk().await;
    let path = format!("/threads/{THREAD}/stream/events");
    let mut open = desk.send(Method::POST, &path, &json!({ "channels": ["values", "lifecycle"] })).await;
    let mut text = String::new();
    let is_end = |received: &&SentEvent| received.data["params"]["data"]["event"] == "completed";
    for run in 1..=2 {
        command(&desk, "run.start", json!({ "assistant_id": "two", "input": { "n": 1.0 } })).await;
        let received = desk.until(&mut open, &mut text, |received| received.iter().filter(is_end).count() == run).await;
        let numbers: Vec<u64> =
            received.iter().map(|received| received.data["seq"].as_u64().expect("a number")).collect();
        assert!(numbers.is_sorted_by(|one, next| one < next), "{numbers:?}");
        assert_eq!(data(&received, "values").last().expect("values")["n"], json!(4.0));
    }
    desk.stop().await;
}

#[tokio::test]
async fn question_is_answered_on_the_same_stream() {
    let desk = desk().await;
    command(&desk, "run.start", json!({ "assistant_id": "hitl", "input": { "n": 1.0 } })).await;
    let received = events(&desk, json!({ "channels": all() }), "interrupted", 1).await;
    let asked = &data(&received, "input.requested")[0];
    assert_eq!(asked["payload"], json!({ "question": "ok?", "n": 2.0 }));
    let places = |method: &str| received.iter().rposition(|received| received.event == method).unwrap();
    assert!(places("values") < places("input.requested"), "earlier events come before it");
    let id = asked["interrupt_id"].as_str().unwrap();
    let wrong =
        command(&desk, "input.respond", json!({ "interrupt_id": "nope", "namespace": [], "response": "x" })).await;
    assert_eq!(
        (&wrong["error"], &wrong["message"]),
        (&json!("no_such_interrupt"), &json!("Unknown or already-consumed interrupt: nope"))
    );
    let one = json!({ "interrupt_id": id, "namespace": [], "response": "yes" });
    for (responses, says) in [(json!([]), "`responses` is empty"), (json!([one, one]), "two responses")] {
        let refused = command(&desk, "input.respond", json!({ "responses": responses })).await;
        assert!(refused["error"] == "invalid_argument" && refused.to_string().contains(says), "{refused}");
    }
    let done = command(&desk, "input.respond", one.clone()).await;
    assert_eq!((&done["type"], &done["result"]), (&json!("success"), &json!({})));
    let received = events(&desk, json!({ "channels": ["values", "lifecycle", "input"] }), "completed", 1).await;
    assert_eq!(data(&received, "values").last().unwrap()["log"], json!(["a", "ask:yes", "b"]));
    assert_eq!(command(&desk, "input.respond", one).await["error"], "no_such_interrupt");
    desk.stop().await;
}

#[tokio::test]
async fn subgraphs_start_and_end() {
    let desk = desk().await;
    command(&desk, "run.start", json!({ "assistant_id": "sub", "input": { "n": 1.0 } })).await;
    let received = events(&desk, json!({ "channels": ["lifecycle", "values"] }), "completed", 1).await;
    let inner: Vec<_> = received
        .iter()
        .filter(|received| received.data["params"]["namespace"] != json!([]) && received.event == "lifecycle")
        .collect();
    let words: Vec<_> = inner.iter().map(|received| &received.data["params"]["data"]["event"]).collect();
    assert_eq!(words, ["started", "completed"]);
    assert_eq!(inner[0].data["params"]["data"]["graph_name"], "child");
    let root =
        events(&desk, json!({ "channels": ["lifecycle", "values"], "namespaces": [[]], "depth": 0 }), "completed", 1)
            .await;
    assert!(root.iter().all(|received| received.data["params"]["namespace"] == json!([])));
    desk.stop().await;
}

graph! {
    /// Two graphs one after the other, the second with another inside.
    Nested<Line> = Graph { nodes: [first = Inner, second = Sub], edges: [START >> first >> second >> END] }
}

#[tokio::test]
async fn end_of_a_subgraph_is_sent_once_its_step_is_stored() {
    let desk = open(crate::graphs::server().graph("nested", Nested::compile(), ())).await;
    command(&desk, "run.start", json!({ "assistant_id": "nested", "input": { "n": 1.0 } })).await;
    let received = events(&desk, json!({ "channels": all() }), "completed", 1).await;
    let place =
        |fits: &dyn Fn(&Value) -> bool| received.iter().position(|received| fits(&received.data)).expect("it is sent");
    let ends = |node: &str| {
        place(&|received| {
            let params = &received["params"];
            params["data"]["event"] == "completed"
                && params["data"]["graph_name"] == node
                && params["namespace"] != json!([])
        })
    };
    let stored = |step: i64| {
        place(&|received| {
            received["method"] == "checkpoints"
                && received["params"]["namespace"] == json!([])
                && received["params"]["data"]["step"] == step
        })
    };
    assert!(stored(1) < ends("first") && ends("first") < stored(2), "with the step around it, not with the next");
    assert!(ends("child") < ends("second"), "inner graphs end first");
    assert!(stored(2) < ends("second"), "the last with the run");
    desk.stop().await;
}

graph! {
    /// A graph whose inner graph asks.
    AsksInside<Line> = Graph { nodes: [child = Hitl], edges: [START >> child >> END] }
}

/// A client that learns that the thread waits reads the questions at once, each with the graph that asks.
#[tokio::test]
async fn question_of_an_inner_graph_comes_before_the_end_and_has_its_namespace() {
    let desk = open(crate::graphs::server().graph("asks_inside", AsksInside::compile(), ())).await;
    command(&desk, "run.start", json!({ "assistant_id": "asks_inside", "input": { "n": 1.0 } })).await;
    let path = format!("/threads/{THREAD}/stream/events");
    let mut open = desk.send(Method::POST, &path, &json!({ "channels": ["lifecycle", "input"] })).await;
    let received = desk.until(&mut open, &mut String::new(), |received| received.len() == 5).await;
    let row = |received: &SentEvent| {
        let params = &received.data["params"];
        let place = params["namespace"]
            .as_array()
            .expect("a namespace")
            .iter()
            .map(|level| level.as_str().expect("a text").split(':').next().unwrap_or_default().to_owned());
        (received.event.clone(), place.collect::<Vec<_>>(), params["data"]["event"].as_str().map(str::to_owned))
    };
    let lifecycle = |inside: &[&str], event: &str| {
        ("lifecycle".to_owned(), inside.iter().map(|node| (*node).to_owned()).collect(), Some(event.to_owned()))
    };
    let expected = [
        lifecycle(&[], "running"),
        lifecycle(&["child"], "started"),
        ("input.requested".to_owned(), vec!["child".to_owned()], None),
        lifecycle(&[], "interrupted"),
        lifecycle(&["child"], "interrupted"),
    ];
    assert_eq!(received.iter().map(row).collect::<Vec<_>>(), expected);
    let asked = &received[2].data["params"];
    assert_eq!(asked["namespace"], received[1].data["params"]["namespace"]);
    let answer =
        json!({ "interrupt_id": asked["data"]["interrupt_id"], "namespace": asked["namespace"], "response": "yes" });
    assert_eq!(command(&desk, "input.respond", answer).await["type"], "success");
    let received =
        events(&desk, json!({ "channels": ["values", "lifecycle"], "namespaces": [[]], "depth": 0 }), "completed", 1)
            .await;
    assert_eq!(data(&received, "values").last().expect("values")["log"], json!(["a", "ask:yes", "b"]));
    desk.stop().await;
}

/// `@langchain/react` connects each state with the checkpoint before it, to know where an edit of a message branches off.
#[tokio::test]
async fn checkpoint_of_a_step_comes_before_its_state() {
    let desk = desk().await;
    command(&desk, "run.start", json!({ "assistant_id": "sub", "input": { "n": 1.0 } })).await;
    let received = events(&desk, json!({ "channels": ["values", "checkpoints", "lifecycle"] }), "completed", 1).await;
    for inside in [false, true] {
        let of_graph = |received: &&SentEvent| {
            received.event != "lifecycle" && (received.data["params"]["namespace"] != json!([])) == inside
        };
        let order: Vec<&str> = received.iter().filter(of_graph).map(|received| received.event.as_str()).collect();
        let steps: Vec<Value> =
            received.iter().filter(of_graph).map(|received| received.data["params"]["data"]["step"].clone()).collect();
        let pairs = order.len() / 2;
        assert_eq!(order[order.len() - 2 * pairs..], ["checkpoints", "values"].repeat(pairs), "{order:?} {steps:?}");
    }
    desk.stop().await;
}

#[tokio::test]
async fn messages_of_models_are_streamed_in_blocks() {
    let desk = desk().await;
    command(
        &desk,
        "run.start",
        json!({ "assistant_id": "chat", "input": { "messages": [{ "role": "user", "content": "hi" }] } }),
    )
    .await;
    let received = events(&desk, json!({ "channels": ["messages", "tools", "lifecycle"] }), "completed", 1).await;
    let said = data(&received, "messages");
    assert_eq!((&said[0]["event"], &said[0]["role"]), (&json!("message-start"), &json!("ai")));
    assert_eq!(said[1]["content"], json!({ "type": "text", "text": "" }));
    let text: String = said.iter().filter_map(|data| data["delta"]["text"].as_str()).collect();
    assert_eq!(text, "Hello there friend");
    let finished = said.iter().find(|data| data["event"] == "content-block-finish").unwrap();
    assert_eq!(finished["content"], json!({ "type": "text", "text": "Hello there friend" }));
    assert_eq!(said.last().unwrap()["event"], "message-finish");
    desk.stop().await;
}

#[tokio::test]
async fn errors_name_the_wrong_field() {
    let desk = desk().await;
    let error = command(&desk, "run.start", json!({ "input": {} })).await;
    assert_eq!(
        (&error["error"], &error["message"]),
        (&json!("invalid_argument"), &json!("run.start requires an assistant_id."))
    );
    let error = command(&desk, "foo.bar", json!({})).await;
    assert_eq!(
        (&error["error"], &error["message"]),
        (&json!("unknown_command"), &json!("Unknown protocol command: foo.bar"))
    );
    let error = command(&desk, "run.start", json!({ "assistant_id": "nope" })).await;
    assert!(error["message"].as_str().unwrap().starts_with("422: Invalid assistant: 'nope'."), "{error}");
    assert_eq!(command(&desk, "agent.getTree", json!({})).await["error"], "no_such_run");
    let path = format!("/threads/{THREAD}/stream/events");
    let (status, error) = desk.post(&path, json!({})).await;
    assert_eq!((status, error), (400, json!({ "detail": "channels is required and must be a non-empty array" })));
    let (status, error) = desk.post(&path, json!({ "channels": ["zzz"] })).await;
    assert!(status == 400 && error["detail"].as_str().unwrap().contains("zzz"), "{error}");
    desk.stop().await;
}

#[tokio::test]
async fn failure_is_streamed() {
    let desk = desk().await;
    command(&desk, "run.start", json!({ "assistant_id": "boom", "input": { "n": 1.0 } })).await;
    let received = events(&desk, json!({ "channels": ["lifecycle"] }), "failed", 1).await;
    assert!(received[1].data["params"]["data"]["error"].as_str().unwrap().contains("boom!"), "{received:?}");
    desk.stop().await;
}

#[tokio::test]
async fn stream_waits_for_its_thread_to_be_created() {
    let desk = desk().await;
    let path = format!("/threads/{THREAD}/stream/events");
    let mut open = desk.send(Method::POST, &path, &json!({ "channels": ["lifecycle"] })).await;
    // Long enough for the server to have looked.
    tokio::time::sleep(std::time::Duration::from_millis(200)).await;
    command(&desk, "run.start", json!({ "assistant_id": "two", "input": { "n": 1.0 } })).await;
    let mut text = String::new();
    let received = desk.until(&mut open, &mut text, |received| received.len() == 2).await;
    assert_eq!(received[1].data["params"]["data"]["event"], "completed");
    drop(open);
    desk.stop().await;
}

#[tokio::test]
async fn second_run_waits_for_the_first_or_is_refused() {
    let desk = desk().await;
    let slow = |n: f64, more: Value| {
        let mut params = json!({ "assistant_id": "slow", "input": { "n": n } });
        params.as_object_mut().expect("an object").extend(more.as_object().cloned().unwrap_or_default());
        params
    };
    let first = command(&desk, "run.start", slow(60.0, json!({}))).await["result"]["run_id"].clone();
    let mut open = desk
        .send(
            Method::POST,
            &format!("/threads/{THREAD}/stream/events"),
            &json!({ "channels": ["values", "lifecycle"], "since": 0 }),
        )
        .await;
    let mut text = String::new();
    let sleeps = |received: &[SentEvent]| data(received, "values").iter().any(|values| values["log"] == json!(["pre"]));
    desk.until(&mut open, &mut text, sleeps).await;
    let second = command(&desk, "run.start", slow(0.01, json!({}))).await;
    assert_eq!(second["type"], "success", "{second}");
    for reject in ["multitaskStrategy", "multitask_strategy"] {
        let refused = command(&desk, "run.start", slow(0.01, json!({ reject: "reject" }))).await;
        assert_eq!((&refused["type"], &refused["error"]), (&json!("error"), &json!("unknown_error")));
        assert!(refused["message"].as_str().expect("a text").starts_with("409: "), "{refused}");
    }
    let cancel = format!("/threads/{THREAD}/runs/{}/cancel", first.as_str().expect("an id"));
    assert_eq!(desk.post(&cancel, Value::Null).await.0, 202);
    let phases = |received: &[SentEvent]| {
        data(received, "lifecycle").iter().map(|data| data["event"].clone()).collect::<Vec<_>>()
    };
    let received = desk.until(&mut open, &mut text, |received| phases(received).contains(&json!("completed"))).await;
    assert_eq!(
        phases(&received),
        ["running", "interrupted", "running", "completed"],
        "none of those that were refused"
    );
    desk.stop().await;
}
