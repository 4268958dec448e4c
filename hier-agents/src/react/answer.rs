//! The typed answer of an agent: its schema, and how it is read.

use std::sync::Arc;

use hier_spec::agent::FINAL_ANSWER;
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::bounds;
use crate::fit;
use crate::model::{OutputSpec, ToolSpec};
use crate::schema::Shape;
use crate::tool::arguments::ToolArguments;
use hier_checkpoint::message::ToolCall;
use hier_core::state::{Channel, Contains, Plain, Values, WritableChannel};

/// A channel that can hold an agent's answer: it has no reducer, and a type that a model can produce.
#[diagnostic::on_unimplemented(
    message = "an agent cannot write its answer to `{Self}`",
    label = "not an answer channel",
    note = "`answer` needs a channel without a reducer, whose type (or the type inside its `Option`) implements `Deserialize` and `JsonSchema`"
)]
pub trait AnswerChannel: WritableChannel<Value: JsonSchema + DeserializeOwned + 'static> + Sync {
    #[doc(hidden)]
    fn channel_name(&self) -> &'static str;

    /// Returns the write that restores the channel's value in this state.
    #[doc(hidden)]
    fn write_as_in(&self, state: &Self::State) -> <Self::State as Values>::Write;
}

impl<S: Values + Contains<S>, T: JsonSchema + DeserializeOwned + Clone + 'static> AnswerChannel for Channel<S, T, Plain>
where
    Self: WritableChannel<State = S, Value = T> + Sync,
{
    fn channel_name(&self) -> &'static str {
        self.name()
    }

    fn write_as_in(&self, state: &S) -> S::Write {
        self.write_of(self.get(state).clone())
    }
}

/// The default number of unusable answers before an agent fails.
pub(crate) const DEFAULT_ATTEMPTS: u32 = 3;

/// Reads an answer: returns the write of its channel, or the faults.
pub(crate) type Read<W> = Arc<dyn Fn(&Value) -> Result<W, Vec<String>> + Send + Sync>;

pub(crate) struct Answer<S: Values> {
    /// The channel for the answer.
    pub(crate) channel: String,
    pub(crate) shape: Arc<Shape>,
    pub(crate) read: Read<S::Write>,
    /// Resets the channel to its initial value.
    pub(crate) clear: Arc<dyn Fn() -> S::Write + Send + Sync>,
}

impl<S: Values> Answer<S> {
    pub(crate) fn of<T: JsonSchema + DeserializeOwned>(
        channel: &str,
        write: impl Fn(T) -> S::Write + Send + Sync + 'static,
        clear: impl Fn() -> S::Write + Send + Sync + 'static,
    ) -> Self {
        let shape = Arc::new(Shape::of::<T>());
        let known = shape.clone();
        let read: Read<S::Write> = Arc::new(move |given| read(&known, given).map(&write));
        Self { channel: channel.to_owned(), shape, read, clear: Arc::new(clear) }
    }

    /// Returns the tool that gives the answer.
    pub(crate) fn tool(&self) -> ToolSpec {
        ToolSpec {
            name: FINAL_ANSWER.to_owned(),
            description: "Gives your answer and ends your work. Call it alone, when your answer is complete."
                .to_owned(),
            parameters: self.shape.schema().clone(),
        }
    }

    /// Returns the output schema, for models that support one.
    pub(crate) fn output(&self) -> OutputSpec {
        OutputSpec { name: self.channel.clone(), schema: self.shape.schema().clone() }
    }

    /// Reads the arguments of the answer tool.
    pub(crate) fn take(&self, given: &Value) -> Result<S::Write, String> {
        (self.read)(given).map_err(|faults| format!("the answer does not fit:\n- {}", faults.join("\n- ")))
    }

    /// Reads the text of an answer.
    pub(crate) fn parse(&self, said: &str) -> Result<(Value, S::Write), String> {
        let said = said.trim();
        // Some models wrap JSON in a code block.
        let inner = said.strip_prefix("```").and_then(|rest| rest.strip_suffix("```"));
        let inner = inner.map_or(said, |inner| inner.strip_prefix("json").unwrap_or(inner));
        let value: Value =
            serde_json::from_str(inner).map_err(|error| format!("the answer is not valid JSON: {error}"))?;
        let write = self.take(&value)?;
        Ok((value, write))
    }

    /// Renders the answer as text for a supervisor.
    pub(crate) fn report(&self, given: &Value) -> String {
        let meant = fit::meant(given, self.shape.schema());
        let given = meant.as_ref().unwrap_or(given);
        let value = self.shape.value(given).unwrap_or(given);
        value.as_str().map_or_else(|| value.to_string(), str::to_owned)
    }
}

/// Reads a value with this schema, or returns its faults.
pub(crate) fn read<T: JsonSchema + DeserializeOwned>(shape: &Shape, given: &Value) -> Result<T, Vec<String>> {
    let is_read = shape.value(given).is_some_and(|value| T::deserialize(value).is_ok());
    let args = if is_read { None } else { fit::meant(given, shape.schema()) };
    let args = args.unwrap_or_else(|| given.clone());
    let call = ToolCall { name: FINAL_ANSWER.to_owned(), args, id: String::new() };
    let mut arguments = ToolArguments::of_schema(&call, shape.schema());
    if given.is_null() {
        return Err(vec!["it is null, and must be a JSON object".to_owned()]);
    }
    let value = arguments.whole::<T>();
    let Some(value) = value.filter(|_| arguments.fit()) else { return Err(arguments.faults()) };
    let broken = bounds::broken(shape.schema(), &call.args);
    if broken.is_empty() { Ok(value) } else { Err(broken) }
}
