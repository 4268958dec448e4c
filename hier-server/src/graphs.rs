//! The graphs that are served.

use std::sync::Arc;

use hier_core::graph::{DynCommand, DynGraph, DynInput};
use hier_core::runs::Request;
use hier_core::spec::GraphSpec;
use serde_json::{Map, Value, json};

use crate::wire::message;

/// A graph that is served.
#[derive(Clone)]
pub(crate) struct Served {
    pub(crate) graph: Arc<dyn DynGraph>,
}

impl Served {
    /// Refuses a request that the graph would refuse at once, with a text that names the field.
    pub(crate) fn check(&self, request: &Request) -> Result<(), String> {
        let input = match &request.command {
            Some(command) => DynInput::Command(DynCommand::from_json(command)?),
            None if request.input.is_null() => DynInput::Continue,
            None => DynInput::New(request.input.clone()),
        };
        self.graph.check(&input).map_err(|error| error.to_string())
    }

    /// The JSON Schemas of the graph's types.
    pub(crate) fn schemas(&self) -> Value {
        let schemas = self.graph.schemas();
        let outward = |schema: &Option<Value>| {
            let mut schema = schema.clone();
            schema.iter_mut().for_each(message::schema_outward);
            schema
        };
        json!({
            "input_schema": outward(&schemas.input),
            "output_schema": outward(&schemas.output),
            "state_schema": outward(&schemas.state),
            "config_schema": schemas.config,
            "context_schema": schemas.context,
        })
    }

    /// The graphs in this one, by the names of their nodes. Of their types nothing is known here but that they are objects.
    pub(crate) fn subgraphs(&self, namespace: Option<&str>, recurse: bool) -> Value {
        let mut found = Map::new();
        collect(self.graph.spec(), "", recurse || namespace.is_some(), &mut found);
        if let Some(namespace) = namespace {
            let wanted = namespace.replace('.', "|");
            found.retain(|name, _| *name == wanted || (recurse && name.starts_with(&format!("{wanted}|"))));
        }
        Value::Object(found)
    }
}

fn collect(spec: &GraphSpec, prefix: &str, recurse: bool, found: &mut Map<String, Value>) {
    for node in spec.nodes.iter() {
        let Some(nested) = &node.nested else { continue };
        let name = format!("{prefix}{}", node.name);
        let schemas = json!({
            "input_schema": null, "output_schema": null, "config_schema": null, "context_schema": null,
            "state_schema": { "title": nested.spec().name, "type": "object" },
        });
        if recurse {
            collect(nested.spec(), &format!("{name}|"), true, found);
        }
        found.insert(name, schemas);
    }
}
