//! Tools: what a model can call, and what comes of it.

pub(crate) mod arguments;
pub(crate) mod attempts;
pub(super) mod errors;
pub(super) mod output;
pub(crate) mod set;
pub(crate) mod step;

use async_trait::async_trait;

use crate::agent::model::ToolSpec;
use crate::error::NodeError;
use crate::graph::{Command, Task};
use crate::message::{Content, Message, ToolCall};
use crate::state::Values;

/// Something that a model can call, in graphs over `S` with the context `C`. `#[tool]` implements it; by hand it is
/// written with [`async_trait`](crate::async_trait).
///
/// # The attribute
///
/// It stands above an `async fn`. The doc comment of the function is what the model is told of the tool, its name is the
/// tool's, and its parameters are the arguments, with a schema of their types: each type has `Deserialize` and
/// `JsonSchema`, and a doc comment above a parameter describes it.
///
/// | parameter | who gives it |
/// |---|---|
/// | `year: u16` | the model, always |
/// | `region: Option<Region>` | the model, or nobody |
/// | `#[default = 10] limit: usize`, `#[default] tags: Vec<String>` | the model, or it has the default |
/// | `#[args] args: Lookup` | the model: the fields of the struct are all arguments there are |
/// | `run: &Run<Desk>` | the run of the agent, whose context is then `Desk` |
/// | `state: &Filing` | the state of the agent, or a part of it that it flattens |
/// | `#[inject] heading: Heading<'_>` | a view of the state, or whatever else a node could take |
/// | `call: &ToolCall`, `id: ToolCallId` | the call that is being made |
///
/// Arguments that do not fit, are missing or are not known are all reported to the model at once, each with its path; the
/// function is not called. It returns something that becomes the answer (see [`IntoToolOutput`](crate::agent::IntoToolOutput)):
/// text, a number, [`Json`](crate::agent::Json), messages, a [`Command`] over the state or a part of it, or a `Result` of these.
///
/// Options: `#[tool(name = "look-up", description = "…", needs_approval, step, timeout = 5s, retry = 3)]`. With `retry`, a call
/// whose error is [transient](NodeError::is_transient) is made again, this often in all; `timeout` bounds each attempt. A tool
/// that is a `step` is called once, whatever happens around the call: what it returned is recorded as by
/// [`Run::step`](crate::Run::step), under its name, the id of the call and its arguments. What leads somewhere (a [`Command`] with a
/// target) cannot be.
///
/// The function stays what it is, so a test can call it. The *type* of its name is the tool, and its value
/// [`NamedTool::TOOL`].
///
/// ```
/// use hier_core::agent::{NamedTool, Tool};
/// use hier_core::prelude::*;
///
/// #[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
/// struct Filing {
///     country: String,
/// }
///
/// /// Looks up the tax rate of a year.
/// #[tool(timeout = 5s)]
/// async fn lookup_rate(
///     /// From 1990 on.
///     year: u16,
///     state: &Filing,
/// ) -> Result<String> {
///     if year < 1990 {
///         return Err(NodeError::permanent(format!("no rates of {year}")));
///     }
///     Ok(format!("7 % in {}", state.country))
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<()> {
/// let spec = Tool::<Filing, ()>::spec(&lookup_rate::TOOL);
/// assert_eq!((spec.name.as_str(), spec.description.as_str()), ("lookup_rate", "Looks up the tax rate of a year."));
/// assert_eq!(spec.parameters["required"], serde_json::json!(["year"]));
/// assert_eq!(lookup_rate(2026, &Filing { country: "Utopia".to_owned() }).await?, "7 % in Utopia");
/// # Ok(())
/// # }
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no tool for agents over `{S}` with the context `{C}`",
    label = "no tool for agents over `{S}` with the context `{C}`",
    note = "a tool's `&Run<…>` must be of the agent's context, and the agent's state must contain what the tool reads",
    note = "of a function `lookup` with `#[tool]` above it, the tool is `lookup::TOOL`"
)]
#[async_trait]
pub trait Tool<S: Values, C>: Send + Sync + 'static {
    /// What the model is told about it.
    fn spec(&self) -> ToolSpec;

    /// Whether a person must approve each call before it is made.
    fn needs_approval(&self) -> bool {
        false
    }

    /// Calls it. An error is the tool's own failure; arguments that do not fit are [`ToolOutput::Invalid`].
    async fn call(&self, call: &ToolCall, task: &Task<S, C>) -> Result<ToolOutput<S>, NodeError>;
}

/// A tool whose name the compiler knows, so that it can refuse two of one name. `#[tool]` implements it.
///
/// The path of such a tool is a type, and its value is in [`TOOL`](Self::TOOL).
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no tool",
    label = "no tool",
    note = "write `#[tool]` above an `async fn`"
)]
pub trait NamedTool: Sized + Send + Sync + 'static {
    /// The name by which models call it.
    const NAME: &'static str;
    /// The tool.
    const TOOL: Self;
}

/// A tool whose spec is known without a state and a context. `#[tool]` implements it; [`tools!`](crate::agent::tools) makes a list of
/// such specs.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no tool",
    label = "no tool",
    note = "write `#[tool]` above an `async fn`"
)]
pub trait DeclaredTool: NamedTool {
    /// What models are told about it.
    fn declared() -> ToolSpec;
}

/// The specs of tools, for a model that a node asks: `run.model()?.ask(messages).tools(tools![lookup, refund])`.
///
/// In `graph!`, `act = tools![lookup, refund]` is the node that makes the calls: see [`ToolNode`](crate::agent::ToolNode).
#[doc(hidden)]
#[macro_export]
macro_rules! __hier_tools {
    ($($tool:path),* $(,)?) => {
        [$(<$tool as $crate::plumbing::DeclaredTool>::declared()),*]
    };
}
// Exported from here, as every other item of the module is: macros that are exported stand at the root of the crate.
#[doc(inline)]
pub use __hier_tools as tools;

/// What a tool returns.
#[derive(Debug)]
#[non_exhaustive]
pub enum ToolOutput<S: Values> {
    /// The result, which becomes a message.
    Content(Content),
    /// Messages, taken as they are: one of them must answer the call.
    Messages(Vec<Message>),
    /// An update of the state and where to go on: its messages must answer the call.
    Command(Command<S>),
    /// The arguments do not fit: what is wrong with which field. The model is told, whatever the error policy.
    Invalid(String),
}
