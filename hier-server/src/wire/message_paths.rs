//! Finds the messages in the values of a graph by the JSON Schemas of its states, and removes its secret channels.
//!
//! Only values at the paths of messages are translated. Other values that look like messages belong to the program.
//! Data that an earlier version of the program stored may contain a channel that became secret later, so this module
//! also removes secret channels.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, PoisonError};

use hier_core::graph::DynGraph;
use hier_core::message::Message;
use hier_core::runs::{LogEvent, NewEvent, TaskPhase, hide_channels, hide_command};
use schemars::{JsonSchema, SchemaGenerator};
use serde_json::{Map, Value};

use super::message;

/// The paths of messages, and the secret channels, in the states of a graph and its subgraphs. `None` for a graph that
/// is not served.
#[derive(Clone, Default)]
pub(crate) struct MessagePaths(Option<Arc<SchemaCache>>);

struct SchemaCache {
    graph: Arc<dyn DynGraph>,
    /// The secret channels of the graph and its subgraphs.
    secrets: Vec<String>,
    /// The paths of each graph, by the nodes that lead to the graph.
    known: Mutex<HashMap<Vec<String>, Arc<MessageShape>>>,
}

impl std::fmt::Debug for MessagePaths {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("MessagePaths").finish_non_exhaustive()
    }
}

impl MessagePaths {
    pub(crate) fn new(graph: Arc<dyn DynGraph>) -> Self {
        let secrets = graph.secret_channels().into_iter().map(|secret| secret.channel).collect();
        Self(Some(Arc::new(SchemaCache { graph, secrets, known: Mutex::default() })))
    }

    fn shape<T: AsRef<str>>(&self, namespace: &[T]) -> Option<Arc<MessageShape>> {
        let cache = self.0.as_ref()?;
        let node = |level: &T| {
            let level = level.as_ref();
            level.rsplit_once(':').map_or(level, |(node, _)| node).to_owned()
        };
        let nodes: Vec<String> = namespace.iter().map(node).collect();
        let mut known = cache.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(shape) = known.get(&nodes) {
            return Some(shape.clone());
        }
        let schema = cache.graph.state_schema(&nodes)?;
        let shape = Arc::new(MessageShape::new(&schema));
        known.insert(nodes, shape.clone());
        Some(shape)
    }

    /// Removes the secret channels from a state, an input or an update.
    pub(crate) fn hide(&self, values: &mut Value) {
        if let Some(cache) = self.0.as_ref().filter(|cache| !cache.secrets.is_empty()) {
            hide_channels(&cache.secrets, values);
        }
    }

    /// Removes the secret channels from a command.
    pub(crate) fn hide_command(&self, command: &mut Value) {
        if let Some(cache) = self.0.as_ref().filter(|cache| !cache.secrets.is_empty()) {
            hide_command(&cache.secrets, command);
        }
    }

    /// Translates the messages of a state, or of a part of a state, and removes the secret channels. `namespace` is the
    /// namespace of the state's graph.
    pub(crate) fn state<T: AsRef<str>>(&self, namespace: &[T], values: &mut Value) {
        self.hide(values);
        if let Some(shape) = self.shape(namespace) {
            shape.translate(values);
        }
    }

    /// Translates the messages in a filter for states of the root graph into the stored form. The messages of a filter
    /// may lack fields.
    pub(crate) fn filter(&self, values: &mut Value) {
        if let Some(shape) = self.shape::<&str>(&[]) {
            shape.each_message(values, message::filter_inward);
        }
    }

    /// Returns the event with translated messages and without secret channels.
    pub(crate) fn event(&self, event: &NewEvent) -> LogEvent {
        let mut body = event.body.clone();
        let values = match &mut body {
            LogEvent::Values(values) => values,
            LogEvent::Updates(update) => &mut update.writes,
            LogEvent::Checkpoint(checkpoint) => &mut checkpoint.values,
            LogEvent::Task(task) | LogEvent::Debug { task, .. } => match &mut task.phase {
                TaskPhase::Started { input, .. } => input,
                TaskPhase::Finished { result, .. } => result,
            },
            // The messages of the state were translated before the event was stored.
            LogEvent::StateUpdate { state, .. } => {
                state.get_mut("values").into_iter().for_each(|values| self.hide(values));
                let tasks = state.get_mut("tasks").and_then(Value::as_array_mut).into_iter().flatten();
                tasks.filter_map(|task| task.get_mut("result")).for_each(|result| self.hide(result));
                return body;
            }
            LogEvent::Start { .. }
            | LogEvent::End { .. }
            | LogEvent::Interrupted(_)
            | LogEvent::Custom { .. }
            | LogEvent::Message(_)
            | LogEvent::Lagged { .. } => return body,
        };
        self.state(&event.namespace, values);
        body
    }
}

/// Maximum nesting of alternatives (`anyOf` and `$ref`) in a schema for one value.
const ALTERNATIVES: usize = 32;

/// The paths of messages in the values that a schema describes. The first node describes the whole value.
struct MessageShape(Vec<ShapeNode>);

#[derive(Default)]
struct ShapeNode {
    is_message: bool,
    fields: BTreeMap<String, usize>,
    /// The node for all other fields.
    others: Option<usize>,
    /// The nodes for the first items of a list, one for each item.
    first: Vec<usize>,
    items: Option<usize>,
    /// Further nodes for the same value.
    also: Vec<usize>,
}

struct SchemaReader<'a> {
    nodes: Vec<ShapeNode>,
    definitions: Option<&'a Map<String, Value>>,
    message: Value,
    /// The nodes for definitions, by name.
    named: HashMap<&'a str, usize>,
}

impl<'a> SchemaReader<'a> {
    fn node(&mut self, schema: &'a Value) -> usize {
        let place = self.nodes.len();
        self.nodes.push(ShapeNode::default());
        self.read(place, schema);
        place
    }

    fn read(&mut self, place: usize, schema: &'a Value) {
        if *schema == self.message {
            self.nodes[place].is_message = true;
            return;
        }
        let Some(schema) = schema.as_object() else { return };
        if let Some(name) = schema.get("$ref").and_then(Value::as_str).and_then(|target| target.rsplit('/').next()) {
            let named = match self.named.get(name) {
                Some(named) => Some(*named),
                None => self.definitions.and_then(|all| all.get(name)).map(|definition| {
                    let named = self.nodes.len();
                    self.nodes.push(ShapeNode::default());
                    self.named.insert(name, named);
                    self.read(named, definition);
                    named
                }),
            };
            self.nodes[place].also.extend(named);
        }
        for list in ["anyOf", "oneOf", "allOf"] {
            for alternative in schema.get(list).and_then(Value::as_array).into_iter().flatten() {
                let node = self.node(alternative);
                self.nodes[place].also.push(node);
            }
        }
        for (name, field) in schema.get("properties").and_then(Value::as_object).into_iter().flatten() {
            let node = self.node(field);
            self.nodes[place].fields.insert(name.clone(), node);
        }
        for item in schema.get("prefixItems").and_then(Value::as_array).into_iter().flatten() {
            let node = self.node(item);
            self.nodes[place].first.push(node);
        }
        if let Some(others) = schema.get("additionalProperties").filter(|others| others.is_object()) {
            self.nodes[place].others = Some(self.node(others));
        }
        if let Some(items) = schema.get("items").filter(|items| items.is_object()) {
            self.nodes[place].items = Some(self.node(items));
        }
    }
}

impl MessageShape {
    fn new(schema: &Value) -> Self {
        let message = Message::json_schema(&mut SchemaGenerator::default()).to_value();
        let definitions = schema.get("$defs").and_then(Value::as_object);
        let mut reader = SchemaReader { nodes: Vec::new(), definitions, message, named: HashMap::new() };
        reader.node(schema);
        Self(reader.nodes)
    }

    fn translate(&self, value: &mut Value) {
        self.each_message(value, message::outward);
    }

    fn each_message(&self, value: &mut Value, change: fn(&mut Value)) {
        self.at(0, value, 0, change);
    }

    fn at(&self, place: usize, value: &mut Value, depth: usize, change: fn(&mut Value)) {
        let Some(node) = self.0.get(place).filter(|_| depth < ALTERNATIVES) else { return };
        if node.is_message {
            change(value);
            return;
        }
        for also in &node.also {
            self.at(*also, value, depth + 1, change);
        }
        match value {
            Value::Object(fields) if !node.fields.is_empty() || node.others.is_some() => {
                for (name, field) in fields {
                    if let Some(place) = node.fields.get(name).copied().or(node.others) {
                        self.at(place, field, 0, change);
                    }
                }
            }
            Value::Array(items) if !node.first.is_empty() || node.items.is_some() => {
                for (number, item) in items.iter_mut().enumerate() {
                    if let Some(place) = node.first.get(number).copied().or(node.items) {
                        self.at(place, item, 0, change);
                    }
                }
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use hier_core::message::Messages;
    use serde::{Deserialize, Serialize};
    use serde_json::json;

    use super::*;

    #[derive(Serialize, Deserialize, JsonSchema)]
    struct SampleState {
        /// The conversation.
        messages: Messages,
        last: Option<Message>,
        rooms: HashMap<String, Messages>,
        pair: (u8, Message),
        tree: SampleTree,
        event: SampleEvent,
        doc: Value,
        note: SampleNote,
    }

    #[derive(Serialize, Deserialize, JsonSchema)]
    struct SampleTree {
        said: Vec<Message>,
        below: Vec<SampleTree>,
    }

    #[derive(Serialize, Deserialize, JsonSchema)]
    enum SampleEvent {
        Said(Message),
        Quit,
    }

    /// A type that has the fields of a message, but is not a message.
    #[derive(Serialize, Deserialize, JsonSchema)]
    struct SampleNote {
        role: String,
        content: String,
    }

    #[test]
    fn messages_are_translated_wherever_their_type_occurs() {
        let ours = json!({ "role": "user", "content": "hi", "id": "1" });
        let mut theirs = ours.clone();
        message::outward(&mut theirs);
        assert_eq!(theirs["type"], "human");
        let state = |said: &Value| {
            json!({
                "messages": [said, said],
                "last": said,
                "rooms": { "a": [said] },
                "pair": [1, said],
                "tree": { "said": [said], "below": [{ "said": [said], "below": [] }] },
                "event": { "Said": said },
                "doc": { "messages": [ours] },
                "note": ours,
            })
        };
        let mut values = state(&ours);
        MessageShape::new(&schemars::schema_for!(SampleState).to_value()).translate(&mut values);
        assert_eq!(values, state(&theirs));
    }
}
