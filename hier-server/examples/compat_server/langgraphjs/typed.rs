//! `simple_runtime`, and three graphs that serve only their schemas.

use hier_agents::Messages;
use hier_agents::prelude::*;
use hier_core::BuildError;
use hier_core::graph::{Erased, GraphBuilder, RunContext, Task};
use hier_core::state::{DynState, Schema};
use serde_json::{Value, json};

/// The configuration of `simple_runtime`.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
enum Model {
    Anthropic,
    Openai,
    Unknown,
}

#[derive(Clone, Copy, Debug, Serialize, Deserialize, JsonSchema)]
pub(super) struct Runtime {
    model: Model,
}

/// Returns the model that its context names. No node writes `message`, so it has no value. `messages` are accepted and dropped.
pub(super) fn simple_runtime() -> Result<Erased<DynState, Runtime>, BuildError> {
    let schema = Schema::new().last("message").last("model").ephemeral("messages");
    let mut graph = GraphBuilder::dynamic("simple_runtime", schema);
    graph = graph.node("use_context", async |task: Task<DynState, Runtime>| {
        task.state().update(json!({ "model": task.run().context().model }))
    });
    graph = graph.edge(START, "use_context").edge("use_context", END);
    let context = |run: &RunContext| match &run.context {
        Value::Null => Ok(Runtime { model: Model::Unknown }),
        Value::Object(fields) if fields.is_empty() => Ok(Runtime { model: Model::Unknown }),
        given => Ok(serde_json::from_value(given.clone())?),
    };
    let schema = schemars::schema_for!(Runtime).to_value();
    Ok(graph.compile()?.erase(context).with_schemas(|schemas| {
        schemas.config = Some(schema.clone());
        schemas.context = Some(schema);
    }))
}

macro_rules! one_node {
    ($make:ident, $state:ident, $name:literal) => {
        pub(super) fn $make() -> Result<Erased<$state, ()>, BuildError> {
            let mut graph = GraphBuilder::new($name);
            graph = graph.node("process", async |task: Task<$state>| task.state().processed());
            graph = graph.edge(START, "process").edge("process", END);
            Ok(graph.compile()?.erase(|_| Ok(())).with_state_schema::<$state>())
        }
    };
}

#[derive(State, Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub(super) struct StateSchema {
    #[reducer(messages)]
    #[schemars(with = "Vec<Value>", extend("langgraph_type" = "messages"))]
    messages: Messages,
    count: f64,
}

impl StateSchema {
    fn processed(&self) -> StateSchemaUpdate {
        let count = self.count + 1.0;
        Self::update().messages([Message::assistant(format!("Response {count}"))]).count(count)
    }
}

one_node!(state_schema, StateSchema, "state_schema_graph");

#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Status {
    #[default]
    Idle,
    Processing,
    Done,
}

#[derive(State, Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub(super) struct ZodRegistry {
    #[reducer(append)]
    #[schemars(extend("langgraph_type" = "messages"))]
    messages: Vec<String>,
    count: f64,
    status: Status,
}

impl ZodRegistry {
    fn processed(&self) -> ZodRegistryUpdate {
        let count = self.count + 1.0;
        let status = if count > 9.0 { Status::Done } else { Status::Processing };
        Self::update().messages([format!("Message {count}")]).count(count).status(status)
    }
}

one_node!(zod_registry, ZodRegistry, "zod_registry_graph");

#[derive(State, Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub(super) struct PlainZod {
    items: Vec<String>,
    counter: f64,
    label: Option<String>,
}

impl PlainZod {
    fn processed(&self) -> PlainZodUpdate {
        let counter = self.counter + 1.0;
        let mut items = self.items.clone();
        items.push(format!("Item {counter}"));
        Self::update().items(items).counter(counter).label("processed".to_owned())
    }
}

one_node!(plain_zod, PlainZod, "plain_zod_graph");
