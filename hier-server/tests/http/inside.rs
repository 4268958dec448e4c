//! The states of graphs within others, changed from outside.

use std::sync::Arc;
use std::time::Duration;

use hier_agents::prelude::*;
use hier_core::Durability;
use hier_core::graph::{DynGraph, DynInput, DynRun};
use hier_core::runs::{Cancel, EventBuffering, MemoryRuns, NewRun, Request, RunClaim, RunLog, RunStore};
use hier_core::store::MemoryStore;
use serde_json::{Value, json};

use crate::graphs::{Hitl, Inner, Line, LineUpdate, server};
use crate::support::{Desk, open};

graph! {
    /// A graph that asks, in another.
    Around<Line> = Graph { nodes: [child = Hitl], edges: [START >> child >> END] }
}

/// A thread whose graph within asks, and where that is.
async fn asked(desk: &Desk) -> (String, Value) {
    let path = format!("/threads/{}", desk.thread().await);
    desk.post(&format!("{path}/runs/wait"), json!({ "assistant_id": "around", "input": { "n": 1 } })).await;
    let (_, state) = desk.get(&format!("{path}/state")).await;
    (path, state["tasks"][0]["checkpoint"].clone())
}

fn around() -> hier_server::Server {
    server().graph("around", Around::compile(), ())
}

#[tokio::test]
async fn state_of_a_subgraph_is_changed_while_it_asks() {
    let desk = open(around()).await;
    let (path, place) = asked(&desk).await;
    let change = json!({ "values": { "n": 20.0 }, "checkpoint": place });
    let (status, made) = desk.post(&format!("{path}/state"), change).await;
    assert_eq!((status, &made["checkpoint"]["checkpoint_ns"]), (200, &place["checkpoint_ns"]), "{made}");
    assert_eq!(made["checkpoint"], made["configurable"]);
    let (_, row) = desk.get(&path).await;
    assert_eq!(
        (&row["status"], &row["interrupts"]),
        (&json!("interrupted"), &json!({})),
        "it was asked of the old one"
    );
    let (_, within) = desk.post(&format!("{path}/state/checkpoint"), json!({ "checkpoint": place })).await;
    assert_eq!(within["checkpoint_id"], made["checkpoint_id"]);
    assert_eq!((&within["values"]["n"], &within["metadata"]["source"]), (&json!(20.0), &json!("update")));
    let task = &within["tasks"][0];
    assert_eq!((&task["name"], &task["interrupts"], &task["error"]), (&json!("ask"), &json!([]), &Value::Null));
    let again = json!({ "assistant_id": "around", "input": null });
    let (_, asked) = desk.post(&format!("{path}/runs/wait"), again).await;
    assert_eq!(asked["__interrupt__"][0]["value"]["n"], 20.0);
    let answer = json!({ "assistant_id": "around", "command": { "resume": "yes" } });
    let (_, end) = desk.post(&format!("{path}/runs/wait"), answer).await;
    assert_eq!(end, json!({ "n": 40.0, "log": ["a", "ask:yes", "b"] }));
    assert_eq!(desk.get(&path).await.1["status"], "idle");
    desk.stop().await;
}

#[tokio::test]
async fn earlier_state_of_a_subgraph_is_changed() {
    let desk = open(around()).await;
    let (path, place) = asked(&desk).await;
    let (_, past) = desk.post(&format!("{path}/history"), json!({ "checkpoint": place, "limit": 10 })).await;
    let first =
        past.as_array().and_then(|past| past.iter().find(|state| state["next"] == json!(["a"]))).expect("a state");
    let change =
        json!({ "values": { "n": 7.0, "log": ["by hand"] }, "as_node": "a", "checkpoint": first["checkpoint"] });
    let (status, made) = desk.post(&format!("{path}/state"), change).await;
    assert_eq!(status, 200, "{made}");
    let (_, within) = desk.post(&format!("{path}/state/checkpoint"), json!({ "checkpoint": place })).await;
    assert_eq!(within["parent_checkpoint"], first["checkpoint"]);
    let again = json!({ "assistant_id": "around", "input": null });
    assert_eq!(desk.post(&format!("{path}/runs/wait"), again).await.1["__interrupt__"][0]["value"]["n"], 7.0);
    let answer = json!({ "assistant_id": "around", "command": { "resume": "yes" } });
    let (_, end) = desk.post(&format!("{path}/runs/wait"), answer).await;
    assert_eq!(end, json!({ "n": 14.0, "log": ["by hand", "ask:yes", "b"] }));
    desk.stop().await;
}

#[tokio::test]
async fn run_from_an_open_call_continues_the_thread() {
    let desk = open(around()).await;
    let (path, place) = asked(&desk).await;
    let (_, within) = desk.post(&format!("{path}/state/checkpoint"), json!({ "checkpoint": place })).await;
    let answer =
        json!({ "assistant_id": "around", "command": { "resume": "yes" }, "checkpoint": within["checkpoint"] });
    let (status, end) = desk.post(&format!("{path}/runs/wait"), answer).await;
    assert_eq!((status, end), (200, json!({ "n": 4.0, "log": ["a", "ask:yes", "b"] })));
    assert_eq!(desk.get(&path).await.1["status"], "idle");
    desk.stop().await;
}

#[tokio::test]
async fn run_from_any_other_checkpoint_of_a_call_is_refused_and_names_the_root_checkpoint() {
    let desk = open(around()).await;
    let (path, place) = asked(&desk).await;
    let (_, root) = desk.get(&format!("{path}/state")).await;
    let root = root["checkpoint"]["checkpoint_id"].as_str().expect("an id").to_owned();
    let named = format!("run checkpoint `{root}` of the root graph");
    let (_, past) = desk.post(&format!("{path}/history"), json!({ "checkpoint": place, "limit": 10 })).await;
    let past: Vec<Value> = past.as_array().expect("a list").iter().map(|state| state["checkpoint"].clone()).collect();
    assert!(past.len() > 1, "{past:?}");
    let refuses = async |checkpoint: &Value| {
        let run = json!({ "assistant_id": "around", "input": null, "checkpoint": checkpoint });
        let (status, refused) = desk.post(&format!("{path}/runs/wait"), run).await;
        let text = refused["__error__"]["message"].as_str().or(refused["detail"].as_str()).unwrap_or_default();
        assert!(text.contains("the thread is not at this checkpoint") && text.contains(&named), "{status} {refused}");
    };
    // One before the question of an open call.
    refuses(&past[1]).await;
    let answer = json!({ "assistant_id": "around", "command": { "resume": "yes" } });
    assert_eq!(desk.post(&format!("{path}/runs/wait"), answer).await.0, 200);
    let before = desk.get(&format!("{path}/state?subgraphs=true")).await.1;
    // The call is over.
    for checkpoint in &past {
        refuses(checkpoint).await;
        let change = json!({ "values": { "n": 7.0 }, "as_node": "a", "checkpoint": checkpoint });
        let (status, answer) = desk.post(&format!("{path}/state"), change).await;
        let text = answer["detail"].as_str().unwrap_or_default();
        assert!(status == 400 && text.contains("has ended, and no run continues it"), "{status} {answer}");
    }
    let after = desk.get(&format!("{path}/state?subgraphs=true")).await.1;
    assert_eq!(after["values"], before["values"]);
    assert_eq!(after["checkpoint"], before["checkpoint"]);
    desk.stop().await;
}

#[tokio::test]
async fn invalid_changes_of_subgraphs_are_refused() {
    let desk = open(around()).await;
    let (path, place) = asked(&desk).await;
    let before = desk.get(&format!("{path}/state?subgraphs=true")).await.1;
    let namespace = place["checkpoint_ns"].as_str().expect("a namespace");
    let at = |namespace: &str| json!({ "values": { "n": 9.0 }, "checkpoint": { "checkpoint_ns": namespace } });
    let mut change = at(namespace);
    change["as_node"] = "b2".into();
    let mut field = at(namespace);
    field["values"] = json!({ "m": 1.0 });
    for (body, says) in [
        (at(&namespace.replace("child", "chld")), "did you mean `child`"),
        (at("child:00000000-0000-0000-0000-000000000000"), "no call"),
        (change, "`b2` is not a node"),
        (field, "`values.m`"),
    ] {
        let (status, refused) = desk.post(&format!("{path}/state"), body).await;
        let detail = refused["detail"].as_str().expect("a text");
        assert!(status == 400 && detail.contains(says), "{refused}");
    }
    assert_eq!(desk.get(&format!("{path}/state?subgraphs=true")).await.1, before);
    desk.stop().await;
}

graph! {
    /// A graph that keeps its state, next to a node.
    Beside<Line> = Graph {
        nodes: [child = Inner { checkpoints: per_thread }, other],
        edges: [START >> child >> END, START >> other >> END],
    }
}

async fn other() -> LineUpdate {
    Line::update().log(["other".to_owned()])
}

/// A worker died when all tasks of the step were done and none was applied: nothing is to run next, but there is something to do.
#[tokio::test]
async fn thread_with_tasks_to_apply_is_not_idle() {
    let (store, thread) = (Arc::new(MemoryRuns::new()), uuid::Uuid::new_v4().to_string());
    let mut new = NewRun::new(&*thread, "beside", Request::default()).create_thread();
    new.metadata.insert("graph_id".to_owned(), "beside".into());
    let run = store.driver().create_run(new).await.expect("a run").id;
    let claim = RunClaim::new("one that dies", Duration::from_millis(100), ["beside"]);
    let claimed = store.driver().claim_run(claim).await.expect("the store").expect("the run");
    let mut dying =
        DynRun::new(DynInput::New(json!({ "n": 1.0 })), Config::new().thread(&*thread).durability(Durability::Sync));
    dying.saver = Some(Arc::new(RunLog::new(store.clone(), claimed.lease, Some(run), EventBuffering::WithCommits)));
    let beside = Beside::compile().erase(|_| Ok(()));
    assert!(beside.run(dying).await.expect("it runs").is_finished());
    store.driver().cancel_runs(&thread, &[run], Cancel::Interrupt).await.expect("the store");

    let served = server().graph("beside", Beside::compile(), ());
    let desk = open(served.storage(store.clone(), Arc::new(MemoryStore::default()))).await;
    let path = format!("/threads/{thread}");
    while desk.get(&path).await.1["status"] == "busy" {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(desk.get(&path).await.1["status"], "interrupted");
    let (_, state) = desk.get(&format!("{path}/state")).await;
    assert_eq!((&state["next"], state["tasks"].as_array().map(Vec::len)), (&json!([]), Some(2)));
    let change = json!({ "values": { "n": 5.0 }, "checkpoint": { "checkpoint_ns": "child" } });
    let (status, made) = desk.post(&format!("{path}/state"), change).await;
    assert_eq!(status, 200, "{made}");
    assert_eq!(desk.get(&path).await.1["status"], "interrupted");
    let (_, end) = desk.post(&format!("{path}/runs/wait"), json!({ "assistant_id": "beside", "input": null })).await;
    assert_eq!(end, json!({ "n": 11.0, "log": ["in1", "other"] }));
    assert_eq!(desk.get(&path).await.1["status"], "idle");
    desk.stop().await;
}
