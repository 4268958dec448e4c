//! Cases of LangGraph's semantics that need no saver, agent or store: the order of writes, routing, channels, subgraphs, limits, failures
//! and events. Cases that need a saver are in `durable`, agents and tools in `agents`, drawings in the unit tests of `graph::draw`.

mod channels;
mod failure;
mod graphs;
mod limits;
mod order;
mod routing;
mod streaming;
mod subgraphs;

use hier_core::graph::{CompiledGraph, GraphBuilder, NodeDef, Task};
use hier_core::prelude::*;
use hier_core::state::{Builtin, DynState, Schema};
use serde_json::{Value, json};

type Builder = GraphBuilder<DynState>;
type Compiled = CompiledGraph<DynState>;

/// The state of most cases: a plain `x` and a list `log`.
fn schema() -> Schema {
    Schema::new().last("x").reduced("log", Builtin::Append)
}

/// A lenient graph over that state.
fn builder() -> Builder {
    over(schema())
}

fn over(schema: Schema) -> Builder {
    let mut builder = GraphBuilder::dynamic("case", schema);
    builder = builder.lenient();
    builder
}

/// A graph of nodes that log their names.
fn marks(names: &[&str]) -> Builder {
    let mut builder = builder();
    for name in names {
        builder = builder.node(*name, mark(name));
    }
    builder
}

/// A node that logs its name.
fn mark(name: &str) -> NodeDef<DynState> {
    writes(json!({ "log": [name] }))
}

/// A node that always writes this.
fn writes(update: Value) -> NodeDef<DynState> {
    NodeDef::task(move |task: Task<DynState>| {
        let update = update.clone();
        async move { task.state().update(update) }
    })
}

/// A node that logs the result of this function for its task.
fn tells(what: impl Fn(&Task<DynState>) -> Value + Send + Sync + 'static) -> NodeDef<DynState> {
    NodeDef::task(move |task: Task<DynState>| {
        let update = task.state().update(json!({ "log": [what(&task)] }));
        async move { update }
    })
}

/// The payload of the task, or else its state.
fn input(task: &Task<DynState>) -> Value {
    task.sent_json().ok().flatten().unwrap_or_else(|| task.state().to_value())
}

fn compile(builder: Builder) -> Compiled {
    builder.compile().unwrap_or_else(|error| panic!("{error}"))
}

async fn outcome(builder: Builder, input: Value, config: Config) -> Result<Outcome<DynState>, RunError> {
    let graph = compile(builder);
    let input = graph.update(input).expect("the input is of the graph's channels");
    graph.invoke(input).config(config).await
}

/// The state at the end.
async fn run(builder: Builder, input: Value) -> Value {
    let outcome = outcome(builder, input, Config::default()).await.expect("the graph ends");
    assert!(outcome.is_finished());
    outcome.state().to_value()
}

/// Returns the error of the run.
async fn error(builder: Builder, input: Value) -> RunError {
    outcome(builder, input, Config::default()).await.expect_err("the graph fails")
}

/// The events as `[mode, data]`.
async fn events(graph: &Compiled, input: Value, config: Config, modes: &[StreamMode]) -> Vec<Value> {
    let input = graph.update(input).expect("the input is of the graph's channels");
    let mut stream = graph.stream(input).config(config).modes(modes.iter().copied());
    let mut events = Vec::new();
    while let Some(event) = stream.next().await {
        let event = event.expect("the graph ends");
        events.push(event.to_json().expect("the event is JSON"));
    }
    events
}

/// The payloads of the events in one mode.
async fn payloads(graph: &Compiled, input: Value, mode: StreamMode) -> Vec<Value> {
    let events = events(graph, input, Config::default(), &[mode]).await;
    events.into_iter().map(|event| event["data"].clone()).collect()
}
