//! Decodes JSON from clients into writes and commands.

use std::borrow::Cow;

use serde_json::Value;

use super::{Command, CommandAnswers, DynInput, Input, JsonAnswers, Jump, Program, SendArg};
use crate::channel::ChannelSpec;
use crate::checkpoint::codec;
use crate::command::{DynCommand, kind};
use crate::error::RunError;
use crate::state::{Values, Writes};

pub(crate) struct Decoder<'a, S: Values, C> {
    pub(crate) graph: &'a Program<S, C>,
}

impl<S: Values, C> Decoder<'_, S, C> {
    pub(crate) fn input(&self, input: &DynInput) -> Result<Input<S>, RunError> {
        Ok(match input {
            DynInput::New(values) => Input::New(self.writes("input", values)?),
            DynInput::Whole(values) => Input::Whole(self.writes("input", values)?),
            DynInput::Continue => Input::Continue,
            DynInput::Command(command) => Input::Command(Box::new(self.command(command)?)),
        })
    }

    pub(crate) fn command(&self, command: &DynCommand) -> Result<Command<S>, RunError> {
        let writes = self.writes("update", &command.update)?;
        let jumps = command.goto.iter().map(|(node, sent)| self.jump(node, sent.as_ref())).collect::<Result<_, _>>()?;
        let answers = command
            .resume
            .clone()
            .map(|resume| CommandAnswers::Json(JsonAnswers { resume, results: command.results.clone() }));
        Ok(Command { writes, jumps, answers, ..Command::default() })
    }

    fn jump(&self, node: &str, sent: Option<&Value>) -> Result<Jump, RunError> {
        let plan = &self.graph.plan;
        let found = plan.find(node);
        if node != hier_spec::END && found.is_none() {
            let tail = hier_spec::did_you_mean(node, plan.names());
            return Err(self.wrong(format!("`goto`: `{node}` is not a node{tail}")));
        }
        let sent = sent.filter(|sent| !sent.is_null() || found.is_some_and(|node| self.graph.takes_sent(node)));
        let encoded = sent.map(codec::encode).transpose();
        let encoded = encoded.map_err(|error| self.wrong(format!("`goto`: the value sent to `{node}`: {error}")))?;
        let arg = encoded.map(SendArg::stored);
        if let Some(found) = found {
            let state = self.graph.sent_state(found, arg.as_ref());
            state.map_err(|error| self.wrong(format!("`goto`: {error}")))?;
        }
        let node = (node != hier_spec::END).then(|| Cow::Owned(node.to_owned()));
        Ok(Jump { graph: None, node, arg })
    }

    /// Decodes writes from an object of channels or a list of pairs. `field` is the name of the JSON field in errors.
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

/// Returns the value of an overwrite, which replaces the value of a channel instead of being merged into it.
fn overwritten(fields: &serde_json::Map<String, Value>) -> Option<&Value> {
    if fields.len() != 1 {
        return None;
    }
    fields.get("$overwrite").or_else(|| fields.get("__overwrite__"))
}
