//! What the nodes of a scenario do.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, PoisonError};

use hier_core::NodeError;
use hier_core::graph::{Command, END, Task};
use hier_core::state::{DynState, DynUpdate, Overwrite, Schema, Write};
use serde_json::{Map, Value, json};

use super::python::dumps;
use super::scenario::{Action, Channel, Object, Parent};

/// How often each node has been run to the point where it may fail, over all calls of a scenario.
#[derive(Clone, Default)]
pub(crate) struct Attempts(Arc<Mutex<HashMap<String, u32>>>);

impl Attempts {
    /// Counts one more; its number, from 1.
    fn next(&self, node: &str) -> u32 {
        let mut counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let count = counts.entry(node.to_owned()).or_default();
        *count += 1;
        *count
    }
}

/// The code of a node.
pub(crate) struct Code {
    pub(crate) name: String,
    pub(crate) actions: Vec<Action>,
    pub(crate) channels: BTreeMap<String, Channel>,
    /// The channels of the graph around.
    pub(crate) outer: Option<Schema>,
    pub(crate) attempts: Attempts,
}

impl Code {
    /// Does the actions in order; their writes are one update.
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

    /// The command for the graph around.
    fn for_parent(&self, parent: &Parent) -> Result<Command<DynState>, NodeError> {
        let schema = self.outer.as_ref().ok_or_else(|| NodeError::new("there is no graph around this one"))?;
        let mut writes = parent.update.iter();
        let update = writes
            .try_fold(DynUpdate::default(), |update, (channel, value)| update.write(schema, channel, value.clone()))?;
        let command = Command::<DynState>::update(update);
        Ok(parent.goto.iter().fold(command, |command, target| go(command, target)).parent())
    }
}

/// Lets the command go to a node.
pub(crate) fn go(command: Command<DynState>, target: &str) -> Command<DynState> {
    match target {
        "END" => command.goto(END),
        target => command.goto(target),
    }
}

/// Lets the command go where the action says.
fn jump(command: Command<DynState>, action: &Action) -> Command<DynState> {
    match action {
        Action::Goto(targets) => targets.iter().fold(command, |command, target| go(command, target)),
        Action::Send(sends) => {
            sends.iter().fold(command, |command, send| command.send(send.to.as_str(), send.input.clone()))
        }
        _ => command,
    }
}

/// What a node sees: the state, or what it was sent.
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

    /// What `observe` puts down; null for what is not there.
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

/// The writes so far.
struct Collected<'a> {
    node: &'a str,
    channels: &'a BTreeMap<String, Channel>,
    writes: BTreeMap<&'a str, Write<Value>>,
}

impl<'a> Collected<'a> {
    /// Writes a channel. Two lists are concatenated, two mappings of a `merge` channel merged; otherwise the later wins.
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

    /// Puts a line into a list, or an entry into a mapping.
    fn tell(&mut self, channel: &'a str, what: &str, value: &Value) {
        let (key, text) = (format!("{}:{what}", self.node), dumps(value));
        let value = match self.channels.get(channel) {
            Some(Channel::Merge) => Value::Object(Map::from_iter([(key, Value::String(text))])),
            _ => json!([format!("{key}={text}")]),
        };
        self.put(channel, value);
    }

    /// The writes as one update.
    fn update(self, state: &DynState) -> Result<DynUpdate, NodeError> {
        let schema = state.schema();
        let mut writes = self.writes.into_iter();
        writes.try_fold(DynUpdate::default(), |update, (channel, value)| update.write(schema, channel, value))
    }
}

/// The items of a channel, for one Send each: those of a list, or the keys of a mapping.
pub(crate) fn items(value: Option<&Value>, name: &str) -> Vec<Value> {
    let payload = |item: Value| Value::Object(Object::from_iter([(name.to_owned(), item)]));
    match value {
        Some(Value::Array(items)) => items.iter().cloned().map(payload).collect(),
        Some(Value::Object(entries)) => entries.keys().cloned().map(Value::String).map(payload).collect(),
        _ => Vec::new(),
    }
}

/// What a branch compares: a number, or the length of a list or mapping.
pub(crate) fn measure(value: Option<&Value>) -> Option<f64> {
    match value? {
        Value::Array(items) => u32::try_from(items.len()).ok().map(f64::from),
        Value::Object(entries) => u32::try_from(entries.len()).ok().map(f64::from),
        Value::Bool(value) => Some(f64::from(u8::from(*value))),
        value => value.as_f64(),
    }
}
