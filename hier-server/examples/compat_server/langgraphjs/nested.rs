//! `nested` and `weather`: graphs in graphs. Their states are dynamic, as those of JavaScript are: a channel that nobody has written
//! has no value.

use hier_agents::Messages;
use hier_agents::prelude::*;
use hier_core::graph::{CompiledGraph, GraphBuilder, Task};
use hier_core::reducer::ReduceError;
use hier_core::state::{Builtin, DynState, DynUpdate, Schema};
use hier_core::{BuildError, Result};
use serde_json::{Value, json};

/// Merges messages by id, as a channel `#[reducer(messages)]` of a typed state does.
fn merge(messages: &mut Value, new: Value) -> Result<(), ReduceError> {
    let read = |value: Value| serde_json::from_value::<Conversation>(json!({ "messages": value }));
    let wrong = |error: serde_json::Error| ReduceError::new(error.to_string());
    let mut old = read(messages.take()).map_err(wrong)?;
    for write in Conversation::update().messages(read(new).map_err(wrong)?.messages).into_writes() {
        old.reduce(write)?;
    }
    *messages = serde_json::to_value(old.messages).map_err(wrong)?;
    Ok(())
}

#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
struct Conversation {
    #[reducer(messages)]
    messages: Messages,
}

fn talk() -> Schema {
    Schema::new().reduced_with("messages", json!([]), merge)
}

/// A node that writes this.
fn writes(update: Value) -> impl Fn(Task<DynState>) -> std::future::Ready<Result<DynUpdate>> + Send + Sync + 'static {
    move |task| std::future::ready(task.state().update(update.clone()))
}

/// A graph of two nodes, the second of which may be another graph.
fn pair(
    name: &str,
    own: Option<&str>,
    first: (&str, &str),
    second: (&str, Option<&CompiledGraph<DynState>>),
) -> Result<CompiledGraph<DynState>, BuildError> {
    let schema = Schema::new().reduced("messages", Builtin::Append);
    let mut graph = GraphBuilder::dynamic(name, own.into_iter().fold(schema, Schema::last));
    graph = graph.node(first.0, writes(json!({ "messages": [first.1] })));
    graph = match second.1 {
        Some(nested) => graph.subgraph(second.0, nested),
        None => graph.node(second.0, writes(json!({ "messages": [format!("Entered {} node", second.0)] }))),
    };
    graph = graph.edge(START, first.0).edge(first.0, second.0).edge(second.0, END);
    graph.compile()
}

/// A graph in a graph in a graph.
pub(super) fn nested() -> Result<CompiledGraph<DynState>, BuildError> {
    let child = pair("child", Some("child"), ("c_one", "Entered c_one node"), ("c_two", None))?;
    let parent = pair("parent", Some("parent"), ("p_one", "Entered p_one node"), ("p_two", Some(&child)))?;
    pair("nested", None, ("gp_one", "Entered gp_one node"), ("gp_two", Some(&parent)))
}

/// Stops before `weather_node`, in the graph inside.
pub(super) fn weather() -> Result<CompiledGraph<DynState>, BuildError> {
    let mut inner: GraphBuilder<DynState> = GraphBuilder::dynamic("weather_graph", talk().last("city"));
    inner = inner.node("model_node", writes(json!({ "city": "San Francisco" })));
    inner = inner.node("weather_node", async |task: Task<DynState>| -> Result<DynUpdate> {
        let city = task.state().get("city").and_then(Value::as_str).unwrap_or_default();
        task.state().update(json!({ "messages": [said(&format!("It's sunny in {city}!"))?] }))
    });
    inner = inner.edge(START, "model_node").edge("model_node", "weather_node").edge("weather_node", END);
    inner = inner.interrupt_before(["weather_node"]);
    let inner = inner.compile()?;

    let mut router: GraphBuilder<DynState> = GraphBuilder::dynamic("weather", talk().last("route"));
    router = router.node("router_node", writes(json!({ "route": "weather" })));
    router = router.node("normal_llm_node", async |task: Task<DynState>| -> Result<DynUpdate> {
        task.state().update(json!({ "messages": [said("Hello")?] }))
    });
    router = router.subgraph("weather_graph", &inner);
    router = router.edge(START, "router_node").edge("weather_graph", END).edge("normal_llm_node", END);
    let arms = [("weather", vec!["weather_graph"]), ("other", vec!["normal_llm_node"])];
    router = router.route("router_node", "route", arms, |state: &DynState| {
        state.get("route").and_then(Value::as_str).unwrap_or_default().to_owned()
    });
    router.compile()
}

/// A message of the model, with a new id.
fn said(text: &str) -> Result<Value> {
    let messages = Messages::from(vec![Message::assistant(text)]);
    Ok(serde_json::to_value(messages.last())?)
}
