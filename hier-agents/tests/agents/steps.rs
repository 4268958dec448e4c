//! Tools whose calls are durable steps.

use std::sync::atomic::{AtomicUsize, Ordering};

use hier_agents::prelude::*;
use hier_agents::{NamedTool, Tool, ToolOutput};
use hier_core::Result;
use hier_core::checkpoint::MemorySaver;
use hier_core::graph::{CompiledGraph, GraphBuilder, NodeDef, Task};
use hier_core::message::ToolCall;
use serde_json::json;

use crate::support::Filing;

static BOOKED: AtomicUsize = AtomicUsize::new(0);
static NOTED: AtomicUsize = AtomicUsize::new(0);

/// Books something.
#[tool(step, retry = 3)]
async fn book(seats: u32) -> Result<String> {
    if BOOKED.fetch_add(1, Ordering::Relaxed) == 0 {
        return Err(NodeError::new("the line was busy"));
    }
    Ok(format!("booked {seats}"))
}

/// Notes something, in the state.
#[tool(step)]
async fn note(text: String) -> Result<Command<Filing>> {
    NOTED.fetch_add(1, Ordering::Relaxed);
    Ok(Command::update(Filing::update().findings([text])))
}

/// Leaves.
#[tool(step)]
async fn leave() -> Result<Command<Filing>> {
    Ok(Command::new().goto(END))
}

/// A node that calls each tool twice over and asks, so that it runs again.
fn desk() -> CompiledGraph<Filing, ()> {
    let mut builder = GraphBuilder::<Filing>::new("desk");
    let node = NodeDef::task(|task: Task<Filing>| async move {
        let call = |name: &str, id: &str, args| ToolCall { name: name.to_owned(), args, id: id.to_owned() };
        let mut findings = Vec::new();
        for id in ["1", "2"] {
            let output = book::TOOL.call(&call("book", id, json!({ "seats": 2 })), &task).await?;
            let ToolOutput::Content(content) = output else { panic!("{output:?}") };
            findings.push(content.text());
        }
        let misfit = book::TOOL.call(&call("book", "3", json!({ "seats": "two" })), &task).await?;
        assert!(matches!(misfit, ToolOutput::Invalid(_)), "{misfit:?}");
        let ToolOutput::Command(noted) = note::TOOL.call(&call("note", "4", json!({ "text": "seen" })), &task).await?
        else {
            panic!("a command")
        };
        let _: bool = task.run().interrupt(&"go on?").await?;
        assert_eq!(findings, ["booked 2", "booked 2"]);
        Ok::<_, NodeError>(noted)
    });
    builder = builder.node("desk", node).edge(START, "desk").edge("desk", END);
    builder.compile().expect("a graph").checkpointer(MemorySaver::new())
}

#[tokio::test]
async fn step_tool_runs_each_call_once() {
    let graph = desk();
    let asked = graph.invoke(Filing::update()).thread("t").await.unwrap();
    assert!(!asked.is_finished());
    let calls = || (BOOKED.load(Ordering::Relaxed), NOTED.load(Ordering::Relaxed));
    assert_eq!(calls(), (3, 1), "two calls, one of them at the second try");
    let end = graph.invoke(Command::resume(true)).thread("t").await.unwrap();
    assert_eq!(end.state().findings, ["seen"]);
    assert_eq!(calls(), (3, 1));
}

#[tokio::test]
async fn command_with_target_cannot_be_a_step_result() {
    let mut builder = GraphBuilder::<Filing>::new("desk");
    let node = NodeDef::task(|task: Task<Filing>| async move {
        let call = ToolCall { name: "leave".to_owned(), args: json!({}), id: "1".to_owned() };
        leave::TOOL.call(&call, &task).await?;
        Ok::<_, NodeError>(Filing::update())
    });
    builder = builder.node("desk", node).edge(START, "desk").edge("desk", END);
    let graph = builder.compile().expect("a graph");
    assert!(graph.invoke(Filing::update()).await.is_ok(), "without a checkpointer it is no step");
    let graph = graph.checkpointer(MemorySaver::new());
    let error = graph.invoke(Filing::update()).thread("t").await.expect_err("it goes somewhere").to_string();
    assert!(error.contains("remove `step`"), "{error}");
}
