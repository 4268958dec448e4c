//! Small graphs with the behaviours that clients meet: those whose answers the samples were recorded with.

use std::time::Duration;

use hier_agents::prelude::*;
use hier_core::Result;
use hier_core::message::ToolCall;
use hier_server::Server;
use hier_testkit::ScriptedModel;
use serde_json::json;

/// A number, and the users who have seen it.
#[derive(State, Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub(crate) struct Line {
    n: f64,
    #[reducer(append)]
    log: Vec<String>,
}

fn seen(by: &str) -> LineUpdate {
    Line::update().log([by.to_owned()])
}

graph! {
    /// One after the other.
    pub(crate) Two<Line> = Graph { nodes: [a, b], edges: [START >> a >> b >> END] }
}

async fn a(line: &Line, run: &Run) -> LineUpdate {
    run.emit(json!({ "progress": "a" }));
    seen("a").n(line.n + 1.0)
}

async fn b(line: &Line) -> LineUpdate {
    seen("b").n(line.n * 2.0)
}

graph! {
    /// Asks a person in the middle.
    pub(crate) Hitl<Line> = Graph { nodes: [a, ask, b], edges: [START >> a >> ask >> b >> END] }
}

async fn ask(line: &Line, run: &Run) -> Result<LineUpdate> {
    let answer: String = run.interrupt(&json!({ "question": "ok?", "n": line.n })).await?;
    Ok(seen(&format!("ask:{answer}")))
}

graph! {
    /// A graph with another inside.
    pub(crate) Sub<Line> = Graph { nodes: [a, child = Inner], edges: [START >> a >> child >> END] }
}

graph! {
    /// The one inside.
    pub(crate) Inner<Line> = Graph { nodes: [in1], edges: [START >> in1 >> END] }
}

async fn in1(line: &Line) -> LineUpdate {
    seen("in1").n(line.n + 10.0)
}

graph! {
    /// Sleeps for this many seconds.
    pub(crate) Slow<Line> = Graph { nodes: [pre, sleep], edges: [START >> pre >> sleep >> END] }
}

async fn pre() -> LineUpdate {
    seen("pre")
}

async fn sleep(line: &Line) -> LineUpdate {
    tokio::time::sleep(Duration::from_secs_f64(line.n)).await;
    seen("slept")
}

graph! {
    /// Fails.
    pub(crate) Boom<Line> = Graph { nodes: [bad], edges: [START >> bad >> END] }
}

async fn bad() -> Result<LineUpdate> {
    Err(NodeError::permanent("boom!"))
}

#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Talk {
    #[state(flatten)]
    base: BaseState,
}

graph! {
    /// Says hello.
    pub(crate) Chat<Talk> = ReactGraph {}
}

/// The model of `Chat`.
pub(crate) fn says_hello() -> ScriptedModel {
    ScriptedModel::reacting(|_| {
        let done =
            ToolCall { name: "finish_task".into(), args: json!({ "result": "said hello" }), id: "call-1".into() };
        Message::calls("Hello there friend", [done])
    })
}

/// A server with all of them.
pub(crate) fn server() -> Server {
    Server::new()
        .graph("two", Two::compile(), ())
        .graph("hitl", Hitl::compile(), ())
        .graph("sub", Sub::compile(), ())
        .graph("slow", Slow::compile(), ())
        .graph("boom", Boom::compile(), ())
        .graph("chat", Chat::compile_as_root(), BaseContext::new(says_hello()))
}
