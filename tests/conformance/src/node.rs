//! The code of a scenario's nodes.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, PoisonError};

use hier_core::NodeError;
use hier_core::graph::{Command, END, Task};
use hier_core::state::{DynState, DynUpdate, Overwrite, Schema, Write};
use serde_json::{Map, Value, json};

use super::python::dumps;
use super::scenario::{Action, Channel, Object, Parent};

/// Counts how often each node has reached an action that may fail, over all calls of a scenario.
#[derive(Clone, Default)]
pub(crate) struct Attempts(Arc<Mutex<HashMap<String, u32>>>);

impl Attempts {
    /// Counts an attempt of a node and returns its number, starting at 1.
    fn next(&self, node: &str) -> u32 {
        let mut counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let count = counts.entry(node.to_owned()).or_default();
        *count += 1;
        *count
    }
}

/// A node function that interprets actions.
pub(crate) struct Code {
    pub(crate) name: String,
    pub(crate) actions: Vec<Action>,
    pub(crate) channels: BTreeMap<String, Channel>,
    /// The channels of the parent graph.
    pub(crate) outer: Option<Schema>,
    pub(crate) attempts: Attempts,
}

impl Code {
    /// Runs the actions in order and returns their writes as one update.
    pub(crate) async fn run(&self, task: &Task<DynState>) -> Result<Command<DynState>, NodeError> {
        let seen = Seen::of(task)?;
        let mut writes = Collected { node: &self.name, channels: &self.channels, writes: BTreeMap::new() };
        let mut jumps = Vec::new();
        for action in &self.actions {
            match action {
                Action::Write(object) => object.iter().for_each(|(channel, value)| writes.put(channel, value.clone())),
                Action::Overwrite(object) => {
                    object.iter().for_each(|(channel, value)| writes.overwrite(channel, value));
                }
                Action::Observe { what, into } => writes.tell(into, what, &seen.get(what)),
                Action::Interrupt { question, into } => {
                    let answer: Value = task.run().interrupt(question).await?;
                    writes.tell(into, "resumed", &answer);
                }
                Action::Emit(value) => task.run().emit(value),
                Action::Goto(_) | Action::Send(_) => jumps.push(action),
                Action::Parent(_) => {}
                Action::Fail(fail) => {
                    if self.attempts.next(&self.name) <= fail.times {
                        return Err(NodeError::new(format!("{} failed", self.name)));
                    }
                }
            }
        }
        let parent = self
            .actions
            .iter()
            .find_map(|action| if let Action::Parent(parent) = action { Some(parent) } else { None });
        if let Some(parent) = parent {
            return self.for_parent(parent);
        }
        let command = Command::update(writes.update(task.state())?);
        Ok(jumps.into_iter().fold(command, jump))
    }

    /// Builds the command for the parent graph.
    fn for_parent(&self, parent: &Parent) -> Result<Command<DynState>, NodeError> {
        let schema = self.outer.as_ref().ok_or_else(|| NodeError::new("there is no graph around this one"))?;
        let mut writes = parent.update.iter();
        let update = writes
            .try_fold(DynUpdate::default(), |update, (channel, value)| update.write(schema, channel, value.clone()))?;
        let command = Command::<DynState>::update(update);
        Ok(parent.goto.iter().fold(command, |command, target| go(command, target)).parent())
    }
}

/// Adds a target to the command.
pub(crate) fn go(command: Command<DynState>, target: &str) -> Command<DynState> {
    match target {
        "END" => command.goto(END),
        target => command.goto(target),
    }
}

/// Adds the targets of the action to the command.
fn jump(command: Command<DynState>, action: &Action) -> Command<DynState> {
    match action {
        Action::Goto(targets) => targets.iter().fold(command, |command, target| go(command, target)),
        Action::Send(sends) => {
            sends.iter().fold(command, |command, send| command.send(send.to.as_str(), send.input.clone()))
        }
        _ => command,
    }
}

/// The input of a node: the state, or the payload of a Send.
enum Seen<'a> {
    State(&'a DynState),
    Sent(Value),
}

impl<'a> Seen<'a> {
    fn of(task: &'a Task<DynState>) -> Result<Self, NodeError> {
        Ok(match task.sent_json()? {
            Some(payload) => Self::Sent(payload),
            None => Self::State(task.state()),
        })
    }

    /// Returns the value that `observe` records, or null if it does not exist.
    fn get(&self, what: &str) -> Value {
        let found = match (self, what) {
            (Self::State(state), "$remaining_steps") => Some(json!(state.remaining_steps())),
            (Self::State(state), "$is_last_step") => Some(json!(state.is_last_step())),
            (Self::State(state), channel) => state.get(channel).cloned(),
            (Self::Sent(payload), key) => payload.get(key).cloned(),
        };
        found.unwrap_or_default()
    }
}

/// The writes that a node has collected.
struct Collected<'a> {
    node: &'a str,
    channels: &'a BTreeMap<String, Channel>,
    writes: BTreeMap<&'a str, Write<Value>>,
}

impl<'a> Collected<'a> {
    /// Writes a channel. Two lists are concatenated, and two mappings of a `merge` channel are merged. Otherwise the later value wins.
    fn put(&mut self, channel: &'a str, value: Value) {
        let merges = self.channels.get(channel) == Some(&Channel::Merge);
        match (self.writes.get_mut(channel), value) {
            (Some(Write::Merge(Value::Array(old))), Value::Array(mut new)) => old.append(&mut new),
            (Some(Write::Merge(Value::Object(old))), Value::Object(new)) if merges => old.extend(new),
            (_, value) => {
                self.writes.insert(channel, Write::Merge(value));
            }
        }
    }

    fn overwrite(&mut self, channel: &'a str, value: &Value) {
        self.writes.insert(channel, Overwrite(value.clone()).into());
    }

    /// Appends a line to a list, or adds an entry to a mapping.
    fn tell(&mut self, channel: &'a str, what: &str, value: &Value) {
        let (key, text) = (format!("{}:{what}", self.node), dumps(value));
        let value = match self.channels.get(channel) {
            Some(Channel::Merge) => Value::Object(Map::from_iter([(key, Value::String(text))])),
            _ => json!([format!("{key}={text}")]),
        };
        self.put(channel, value);
    }

    /// Converts the writes into one update.
    fn update(self, state: &DynState) -> Result<DynUpdate, NodeError> {
        let schema = state.schema();
        let mut writes = self.writes.into_iter();
        writes.try_fold(DynUpdate::default(), |update, (channel, value)| update.write(schema, channel, value))
    }
}

/// Returns one Send payload for each item of a list, or for each key of a mapping.
pub(crate) fn items(value: Option<&Value>, name: &str) -> Vec<Value> {
    let payload = |item: Value| Value::Object(Object::from_iter([(name.to_owned(), item)]));
    match value {
        Some(Value::Array(items)) => items.iter().cloned().map(payload).collect(),
        Some(Value::Object(entries)) => entries.keys().cloned().map(Value::String).map(payload).collect(),
        _ => Vec::new(),
    }
}

/// Returns the number that a branch compares: the value itself, or the length of a list or mapping.
pub(crate) fn measure(value: Option<&Value>) -> Option<f64> {
    match value? {
        Value::Array(items) => u32::try_from(items.len()).ok().map(f64::from),
        Value::Object(entries) => u32::try_from(entries.len()).ok().map(f64::from),
        Value::Bool(value) => Some(f64::from(u8::from(*value))),
        value => value.as_f64(),
    }
}
