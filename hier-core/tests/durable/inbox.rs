//! The inbox of a graph: messages from outside reach a thread between two supersteps, exactly once.

use std::sync::{Arc, Mutex};

use hier_core::Durability;
use hier_core::checkpoint::{INBOX_BYTES, Inbox, MemorySaver, SaverError, ThreadAdmin};
use hier_core::graph::{CompiledGraph, Signal, ThreadMessage};
use hier_core::prelude::*;
use serde_json::json;

use crate::kit::{Tally, does, fails, strict};

#[derive(State, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
struct Desk {
    #[reducer(append)]
    notes: Vec<String>,
    #[reducer(append)]
    seen: Vec<usize>,
    last: String,
}

/// Sends to the graph from within its steps.
#[derive(Clone, Default)]
struct Outside {
    graph: Arc<Mutex<Option<CompiledGraph<Desk, Outside>>>>,
    /// In which steps something is sent.
    sends: Vec<i64>,
}

graph! {
    Notes<Desk, Outside> = Graph {
        nodes: [a = works, b = works, c = works],
        edges: [START >> a >> b >> c >> END],
        inbox: notes,
    }
}

async fn works(state: &Desk, run: &Run<Outside>) -> hier_core::Result<DeskUpdate> {
    let Outside { graph, sends } = run.context();
    if sends.contains(&run.superstep()) {
        let graph = graph.lock().expect("no test panics here").clone().expect("a graph");
        graph.send("t", format!("in step {}", run.superstep())).await.map_err(NodeError::from)?;
    }
    Ok(Desk::update().seen([state.notes.len()]).last(run.node().to_owned()))
}

fn notes(saver: &MemorySaver, sends: &[i64]) -> (CompiledGraph<Desk, Outside>, Outside) {
    let graph = Notes::compile().checkpointer(saver.clone());
    let outside = Outside { graph: Arc::new(Mutex::new(Some(graph.clone()))), sends: sends.to_vec() };
    (graph, outside)
}

#[tokio::test]
async fn messages_reach_a_running_thread_between_two_steps() {
    for durability in [Durability::Sync, Durability::Async, Durability::Exit] {
        let saver = MemorySaver::new();
        let (graph, outside) = notes(&saver, &[1, 2]);
        assert!(graph.send("t", "before").await.unwrap());
        let config = Config::new().thread("t").durability(durability);
        let end = graph.invoke(Desk::update()).config(config.clone()).context(outside).await.unwrap();
        assert_eq!(end.state().notes, ["before", "in step 1", "in step 2"], "{durability:?}");
        assert_eq!(end.state().seen, [1, 2, 3]);
        assert_eq!(saver.messages("t").await.unwrap(), Vec::new());
        assert_eq!(graph.state(config).await.unwrap().values.notes.len(), 3);
    }
}

#[tokio::test]
async fn message_in_the_last_step_waits_for_the_next_run() {
    let saver = MemorySaver::new();
    let (graph, outside) = notes(&saver, &[3]);
    let end = graph.invoke(Desk::update()).thread("t").context(outside.clone()).await.unwrap();
    assert_eq!((end.state().notes.len(), saver.messages("t").await.unwrap().len()), (0, 1));
    let end = graph.invoke(Desk::update()).thread("t").context(outside).await.unwrap();
    assert_eq!(end.state().notes, ["in step 3"]);
}

/// A failed step runs again, and the messages drained before it appear once.
#[tokio::test]
async fn message_is_applied_once_over_failures_and_new_runs() {
    let saver = MemorySaver::new();
    let mut builder = strict();
    builder = builder.node("a", does(|_| Ok(json!({ "log": ["a"] })))).node("b", fails(2));
    builder = builder.edge(START, "a").edge("a", "b").edge("b", END).inbox("log");
    let graph = builder.compile().unwrap().checkpointer(saver.clone());
    graph.send("t", ThreadMessage::message(&"hello").id(uuid::Uuid::from_u128(1))).await.unwrap();
    let (config, tries) = (Config::new().thread("t"), Tally::default());
    let start = graph.update(json!({})).unwrap();
    let error =
        graph.invoke(start).config(config.clone()).context(tries.clone()).await.expect_err("the first try").to_string();
    assert!(error.contains("boom"), "{error}");
    graph.send("t", ["one", "two"]).await.unwrap();
    assert!(!graph.send("t", ThreadMessage::message(&"hello").id(uuid::Uuid::from_u128(1))).await.unwrap());
    graph.invoke(()).config(config.clone()).context(tries.clone()).await.expect_err("the second try");
    let end = graph.invoke(()).config(config.clone()).context(tries).await.unwrap();
    let log = end.state().get("log").unwrap().clone();
    assert_eq!(log, json!(["hello", "a", "b"]), "the message waits, because the open step was the last");
    assert_eq!(saver.messages("t").await.unwrap().len(), 1);
}

#[tokio::test]
async fn fork_and_a_copy_do_not_apply_a_message_again() {
    let saver = MemorySaver::new();
    let (graph, outside) = notes(&saver, &[]);
    graph.send("t", "once").await.unwrap();
    assert!(graph.invoke(Desk::update()).thread("t").context(outside.clone()).await.unwrap().is_finished());
    let history = graph.history("t", hier_core::checkpoint::ListQuery::default()).await.unwrap();
    let before = history.iter().find(|at| at.next == ["b"]).expect("before b").config.clone();
    let end = graph.invoke(()).config(before).context(outside.clone()).await.unwrap();
    assert_eq!(end.state().notes, ["once"], "a checkpoint that has it keeps it");
    graph.send("t", "waits").await.unwrap();
    saver.copy_thread("t", "copy").await.unwrap();
    let end = graph.invoke(Desk::update()).thread("copy").context(outside.clone()).await.unwrap();
    assert_eq!(end.state().notes, ["once"], "the message belongs to the thread it was sent to");
    let end = graph.invoke(Desk::update()).thread("t").context(outside).await.unwrap();
    assert_eq!(end.state().notes, ["once", "waits"]);
}

async fn nothing() {}

graph! { Closed<Desk> = Graph { nodes: [nothing], edges: [START >> nothing >> END] } }

#[tokio::test]
async fn unacceptable_message_is_refused() {
    let saver = MemorySaver::new();
    let (graph, _) = notes(&saver, &[]);
    let error = graph.send("t", 17).await.expect_err("a note is a text").to_string();
    for said in [
        "the message fits the inbox `notes` neither as its value (",
        "expected a sequence",
        "one item (",
        "expected a string",
    ] {
        assert!(error.contains(said), "{error}");
    }
    let error = graph.send("t", "x".repeat(INBOX_BYTES)).await.expect_err("too long");
    assert!(matches!(&error, RunError::Saver { error: SaverError::InboxFull { .. }, .. }), "{error}");
    let error = graph.send(Config::default(), "x").await.expect_err("to nobody");
    assert!(matches!(error, RunError::NoThread { .. }), "{error}");
    assert_eq!(saver.messages("t").await.unwrap(), Vec::new());

    let error = Closed::compile().checkpointer(saver.clone()).send("t", "x").await.expect_err("no inbox").to_string();
    assert!(error.contains("declare one with `inbox: channel`"), "{error}");
    let error = Closed::compile().send("t", Signal::new("x", &1)).await.expect_err("no saver").to_string();
    assert!(error.contains("cannot send to threads"), "{error}");
}

#[test]
fn builder_checks_the_inbox() {
    let mut builder = strict();
    builder = builder.node("a", fails(0)).edge(START, "a").edge("a", END).inbox("x").inbox("lg");
    let error = builder.compile().expect_err("both are wrong").to_string();
    assert!(error.contains("the inbox `x` holds one value"), "{error}");
    assert!(error.contains("the inbox `lg` is not a channel"), "{error}");
}
