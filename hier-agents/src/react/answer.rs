//! The typed answer of an agent: its schema, and its parsing.

use std::sync::Arc;

use hier_spec::agent::FINAL_ANSWER;
use schemars::JsonSchema;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::bounds;
use crate::coercion;
use crate::model::{OutputSpec, ToolSpec};
use crate::schema::ObjectSchema;
use crate::tool::arguments::ToolArguments;
use hier_checkpoint::message::ToolCall;
use hier_core::state::{Channel, Contains, Plain, Values, WritableChannel};

/// A channel that can hold an agent's typed answer. It has no reducer, and its type implements `Deserialize` and
/// `JsonSchema`.
#[diagnostic::on_unimplemented(
    message = "an agent cannot write its answer to `{Self}`",
    label = "not an answer channel",
    note = "`answer` needs a channel without a reducer, whose type (or the type inside its `Option`) implements `Deserialize` and `JsonSchema`"
)]
pub trait AnswerChannel: WritableChannel<Value: JsonSchema + DeserializeOwned + 'static> + Sync {
    #[doc(hidden)]
    fn channel_name(&self) -> &'static str;

    /// Returns a write that sets the channel to its value in `state`.
    #[doc(hidden)]
    fn write_as_in(&self, state: &Self::State) -> <Self::State as Values>::Write;
}

#[diagnostic::do_not_recommend]
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

/// The default number of unusable replies before an agent fails.
pub(crate) const DEFAULT_ATTEMPTS: u32 = 3;

/// Reads an answer: returns the write of its channel, or the faults.
pub(crate) type ReadAnswer<W> = Arc<dyn Fn(&Value) -> Result<W, Vec<String>> + Send + Sync>;

type RenderAnswer = Arc<dyn Fn(&Value) -> Option<String> + Send + Sync>;

pub(crate) struct TypedAnswer<S: Values> {
    pub(crate) channel: String,
    pub(crate) shape: Arc<ObjectSchema>,
    pub(crate) read: ReadAnswer<S::Write>,
    /// Renders an answer without the fields that its type ignores. `None` if the type is not text-free.
    text_free: Option<RenderAnswer>,
    /// Resets the channel to its initial value.
    pub(crate) clear: Arc<dyn Fn() -> S::Write + Send + Sync>,
}

impl<S: Values> TypedAnswer<S> {
    pub(crate) fn new<T: JsonSchema + DeserializeOwned>(
        channel: &str,
        write: impl Fn(T) -> S::Write + Send + Sync + 'static,
        clear: impl Fn() -> S::Write + Send + Sync + 'static,
    ) -> Self {
        let shape = Arc::new(ObjectSchema::of_type::<T>());
        let known = shape.clone();
        let read: ReadAnswer<S::Write> = Arc::new(move |given| read_value(&known, given).map(&write));
        Self { channel: channel.to_owned(), shape, read, text_free: None, clear: Arc::new(clear) }
    }

    /// Marks the answer as free of text: a supervisor receives only the fields of the type. If the agent gives no
    /// answer, the supervisor receives no text of the model either.
    pub(crate) fn text_free<T: JsonSchema + DeserializeOwned + Serialize>(mut self) -> Self {
        let shape = self.shape.clone();
        self.text_free = Some(Arc::new(move |given| {
            let value = read_value::<T>(&shape, given).ok()?;
            serde_json::to_string(&value).ok()
        }));
        self
    }

    pub(crate) fn is_text_free(&self) -> bool {
        self.text_free.is_some()
    }

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

    pub(crate) fn read_arguments(&self, given: &Value) -> Result<S::Write, String> {
        (self.read)(given).map_err(|faults| format!("the answer does not fit:\n- {}", faults.join("\n- ")))
    }

    pub(crate) fn read_text(&self, text: &str) -> Result<(Value, S::Write), String> {
        let text = text.trim();
        // Some models wrap JSON in a code block.
        let inner = text.strip_prefix("```").and_then(|rest| rest.strip_suffix("```"));
        let inner = inner.map_or(text, |inner| inner.strip_prefix("json").unwrap_or(inner));
        let value: Value =
            serde_json::from_str(inner).map_err(|error| format!("the answer is not valid JSON: {error}"))?;
        let write = self.read_arguments(&value)?;
        Ok((value, write))
    }

    /// Renders the answer as text for a supervisor.
    pub(crate) fn report(&self, given: &Value) -> String {
        if let Some(render) = &self.text_free {
            return render(given).unwrap_or_default();
        }
        let meant = coercion::coerced(given, self.shape.schema());
        let given = meant.as_ref().unwrap_or(given);
        let value = self.shape.value(given).unwrap_or(given);
        value.as_str().map_or_else(|| value.to_string(), str::to_owned)
    }
}

/// Reads a value with this schema, or returns its faults.
fn read_value<T: JsonSchema + DeserializeOwned>(shape: &ObjectSchema, given: &Value) -> Result<T, Vec<String>> {
    let is_read = shape.value(given).is_some_and(|value| T::deserialize(value).is_ok());
    let args = if is_read { None } else { coercion::coerced(given, shape.schema()) };
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
