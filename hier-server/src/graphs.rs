use std::collections::BTreeMap;
use std::sync::Arc;

use hier_core::graph::{DynCommand, DynGraph, DynInput};
use hier_core::runs::Request;
use hier_core::spec::GraphSpec;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Value, json};

use crate::wire::message;
use crate::wire::message_paths::MessagePaths;

/// Fields that the LangGraph connectors of `CopilotKit` and AG-UI send. LangGraph ignores them if they are not channels
/// of the graph.
const CONNECTOR_FIELDS: [&str; 3] = ["tools", "ag-ui", "copilotkit"];

#[derive(Clone)]
pub(crate) struct ServedGraph {
    pub(crate) graph: Arc<dyn DynGraph>,
    pub(crate) message_paths: MessagePaths,
}

impl ServedGraph {
    pub(crate) fn new(graph: Arc<dyn DynGraph>) -> Self {
        Self { message_paths: MessagePaths::new(graph.clone()), graph }
    }

    /// Removes the fields that connectors add to every input and state, unless they are channels of the graph.
    pub(crate) fn without_connector_fields(&self, values: &mut Value) {
        let channels = self.graph.schemas().state.as_ref().and_then(|state| state.get("properties"));
        let (Some(channels), Some(fields)) = (channels, values.as_object_mut()) else { return };
        fields.retain(|name, _| !CONNECTOR_FIELDS.contains(&name.as_str()) || channels.get(name).is_some());
    }

    /// Checks a request before a run is added. Refuses an input or command that the graph would refuse. The error names
    /// the field.
    pub(crate) fn check(&self, request: &Request) -> Result<(), String> {
        let input = match &request.command {
            Some(command) => DynInput::Command(DynCommand::from_json(command)?),
            None if request.input.is_null() => DynInput::Continue,
            None => DynInput::New(request.input.clone()),
        };
        self.graph.check(&input).map_err(|error| error.to_string())
    }

    pub(crate) fn schemas(&self) -> Schemas {
        let schemas = self.graph.schemas();
        let outward = |schema: &Option<Value>| {
            let mut schema = schema.clone();
            schema.iter_mut().for_each(message::schema_outward);
            schema
        };
        Schemas {
            input_schema: outward(&schemas.input),
            output_schema: outward(&schemas.output),
            state_schema: outward(&schemas.state),
            config_schema: schemas.config.clone(),
            context_schema: schemas.context.clone(),
            question_schemas: schemas
                .questions
                .iter()
                .map(|(name, question)| (name.clone(), json!(question)))
                .collect(),
        }
    }

    /// Returns the subgraphs by the names of their nodes. Their state schemas contain only a title and the type
    /// `object`.
    pub(crate) fn subgraphs(&self, namespace: Option<&str>, recurse: bool) -> BTreeMap<String, Schemas> {
        let mut found = BTreeMap::new();
        collect(self.graph.spec(), "", recurse || namespace.is_some(), &mut found);
        if let Some(namespace) = namespace {
            let wanted = namespace.replace('.', "|");
            found.retain(|name, _| *name == wanted || (recurse && name.starts_with(&format!("{wanted}|"))));
        }
        found
    }
}

/// The JSON Schemas of a graph's types. The schema of an unknown type is null.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
#[schemars(rename = "GraphSchemas")]
#[expect(clippy::struct_field_names, reason = "the names of the protocol")]
pub(crate) struct Schemas {
    input_schema: Option<Value>,
    output_schema: Option<Value>,
    state_schema: Option<Value>,
    config_schema: Option<Value>,
    context_schema: Option<Value>,
    /// The declared questions by their names, each with the schemas `question` and `answer`. Absent if the graph
    /// declares no questions.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    question_schemas: BTreeMap<String, Value>,
}

fn collect(spec: &GraphSpec, prefix: &str, recurse: bool, found: &mut BTreeMap<String, Schemas>) {
    for node in spec.nodes.iter() {
        let Some(nested) = &node.nested else { continue };
        let name = format!("{prefix}{}", node.name);
        let state_schema = Some(json!({ "title": nested.spec().name, "type": "object" }));
        let schemas = Schemas { state_schema, ..Schemas::default() };
        if recurse {
            collect(nested.spec(), &format!("{name}|"), true, found);
        }
        found.insert(name, schemas);
    }
}
