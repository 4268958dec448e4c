//! JSON from outside, as writes and commands.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::erased::DynInput;
use super::{Answers, Command, Input, Jump, Program, SendArg};
use crate::channel::ChannelSpec;
use crate::checkpoint::codec;
use crate::error::RunError;
use crate::state::{Values, Writes};

/// A command as JSON: `{"resume": …, "update": …, "goto": …}`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct DynCommand {
    /// The answer, or answers by the ids of their questions.
    pub resume: Option<Value>,
    /// What is written: an object of channel names, or a list of pairs.
    pub update: Value,
    /// Where to go: nodes, each perhaps with what it is sent.
    pub goto: Vec<(String, Option<Value>)>,
}

impl DynCommand {
    /// Reads a command: `resume` is an answer, or an object whose keys are all ids of questions; `goto` is a name,
    /// `{"node": …, "input": …}`, or a list of them. The error says which field is wrong.
    pub fn from_json(command: &Value) -> Result<Self, String> {
        let Value::Object(fields) = command else {
            return Err(format!(
                "`command` must be an object with `resume`, `update` or `goto`, and is {}",
                kind(command)
            ));
        };
        let goto = match fields.get("goto") {
            None | Some(Value::Null) => Vec::new(),
            Some(Value::Array(targets)) => targets.iter().map(target).collect::<Result<_, _>>()?,
            Some(one) => vec![target(one)?],
        };
        let resume = fields.get("resume").filter(|answer| !answer.is_null()).cloned();
        Ok(Self { resume, update: fields.get("update").cloned().unwrap_or_default(), goto })
    }
}

fn target(target: &Value) -> Result<(String, Option<Value>), String> {
    let wrong = || {
        format!("`command.goto` must be a node, `{{\"node\", \"input\"}}` or a list of them, and has {}", kind(target))
    };
    match target {
        Value::String(node) => Ok((node.clone(), None)),
        Value::Object(fields) => {
            let node = fields.get("node").and_then(Value::as_str).ok_or_else(wrong)?;
            Ok((node.to_owned(), fields.get("input").cloned()))
        }
        _ => Err(wrong()),
    }
}

/// What a JSON value is, in words.
fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a text",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

/// Reads what comes from outside, for one graph.
pub(crate) struct Decoder<'a, S: Values, C> {
    pub(crate) graph: &'a Program<S, C>,
}

impl<S: Values, C> Decoder<'_, S, C> {
    pub(crate) fn input(&self, input: &DynInput) -> Result<Input<S>, RunError> {
        Ok(match input {
            DynInput::New(values) => Input::New(self.writes("input", values)?),
            DynInput::Continue => Input::Continue,
            DynInput::Command(command) => Input::Command(Box::new(self.command(command)?)),
        })
    }

    pub(crate) fn command(&self, command: &DynCommand) -> Result<Command<S>, RunError> {
        let writes = self.writes("update", &command.update)?;
        let jumps = command.goto.iter().map(|(node, sent)| self.jump(node, sent.as_ref())).collect::<Result<_, _>>()?;
        Ok(Command { writes, jumps, answers: command.resume.as_ref().map(answers), ..Command::default() })
    }

    fn jump(&self, node: &str, sent: Option<&Value>) -> Result<Jump, RunError> {
        let plan = &self.graph.plan;
        let found = plan.find(node);
        if node != hier_spec::END && found.is_none() {
            let tail = hier_spec::did_you_mean(node, plan.names());
            return Err(self.wrong(format!("`goto`: `{node}` is no node{tail}")));
        }
        let sent = sent.filter(|sent| !sent.is_null() || found.is_some_and(|node| self.graph.takes_sent(node)));
        if sent.is_some() && found.is_some_and(|node| !self.graph.takes_sent(node)) {
            return Err(self.wrong(format!(
                "`goto`: `{node}` takes no input, since it reads the state: write the state with `update`, and go to the node by its name"
            )));
        }
        let encoded = sent.map(codec::encode).transpose();
        let encoded = encoded.map_err(|error| self.wrong(format!("`goto`: what `{node}` is sent: {error}")))?;
        let node = (node != hier_spec::END).then(|| Cow::Owned(node.to_owned()));
        Ok(Jump { graph: None, node, arg: encoded.map(SendArg::stored) })
    }

    /// Writes of channels, from an object or a list of pairs. What is wrong names the field.
    pub(crate) fn writes(&self, field: &str, values: &Value) -> Result<Writes<S>, RunError> {
        let mut writes = Writes::new();
        match values {
            Value::Null => {}
            Value::Object(fields) => {
                for (name, value) in fields {
                    writes.push(self.write(field, name, value)?);
                }
            }
            Value::Array(pairs) => {
                for pair in pairs {
                    let (Some(name), Some(value)) = (pair.get(0).and_then(Value::as_str), pair.get(1)) else {
                        let reason = "must be an object of channel names, or a list of pairs of a name and a value";
                        return Err(self.wrong(format!("`{field}` {reason}")));
                    };
                    writes.push(self.write(field, name, value)?);
                }
            }
            other => {
                return Err(self.wrong(format!("`{field}` must be an object of channel names, and is {}", kind(other))));
            }
        }
        Ok(writes)
    }

    fn write(&self, field: &str, name: &str, value: &Value) -> Result<S::Write, RunError> {
        let channels = &self.graph.channels;
        let Some(channel) = channels.iter().position(|spec| spec.name == name) else {
            let tail = hier_spec::did_you_mean(name, channels.iter().map(|spec: &ChannelSpec| &*spec.name));
            return Err(self.wrong(format!("`{field}.{name}`: there is no channel `{name}`{tail}")));
        };
        let (overwrite, value) = match value.as_object().and_then(overwritten) {
            Some(value) => (true, value),
            None => (false, value),
        };
        let read = codec::encode(value).and_then(|bytes| (self.graph.initial)().write_from(channel, overwrite, &bytes));
        read.map_err(|error| self.wrong(format!("`{field}.{name}` does not fit the channel: {error}")))
    }

    fn wrong(&self, reason: String) -> RunError {
        RunError::Update { graph: self.graph.plan.graph().to_owned(), reason }
    }
}

/// What replaces a channel's value instead of being merged into it.
fn overwritten(fields: &serde_json::Map<String, Value>) -> Option<&Value> {
    if fields.len() != 1 {
        return None;
    }
    fields.get("$overwrite").or_else(|| fields.get("__overwrite__"))
}

/// An object whose keys are all ids of questions answers by id; anything else is one answer.
fn answers(resume: &Value) -> Answers {
    let is_id = |key: &String| key.len() == 32 && key.bytes().all(|byte| byte.is_ascii_hexdigit());
    match resume.as_object().filter(|object| !object.is_empty() && object.keys().all(is_id)) {
        Some(object) => Answers::ById(object.iter().map(|(id, answer)| (id.clone(), answer.clone())).collect()),
        None => Answers::One(resume.clone()),
    }
}
