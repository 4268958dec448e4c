//! Tools: what a model can call, and what comes of it.

pub(crate) mod arguments;
pub(crate) mod attempts;
pub(super) mod errors;
pub(crate) mod missing;
pub(super) mod output;
pub(crate) mod set;
pub(crate) mod step;

use async_trait::async_trait;

use self::arguments::ToolArguments;
use crate::model::ToolSpec;
use hier_checkpoint::message::{Content, Message, ToolCall};
use hier_core::NodeError;
use hier_core::graph::{Command, Task};
use hier_core::state::Values;

/// Something that a model can call, in graphs over `S` with the context `C`. `#[tool]` implements it; by hand it is
/// written with [`async_trait`](hier_core::async_trait).
///
/// The attribute's grammar, and what a tool takes and returns, is on [its page](macro@crate::prelude::tool).
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

    /// Returns an error in the arguments that can be found without making the call. The agent first converts incorrect arguments to the
    /// types of the schema if the intended value is clear. If a call that needs approval still has an error, the model receives it and no
    /// approval is requested. By default, validates the arguments against the schema.
    fn mistake(&self, call: &ToolCall) -> Option<String> {
        ToolArguments::misfits(call, &self.spec().parameters)
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

/// A tool whose spec is known without a state and a context. `#[tool]` implements it; [`tools!`](crate::tools) makes a list of
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
/// ```
/// use hier_agents::prelude::*;
///
/// /// Gives the money of an order back.
/// #[tool]
/// async fn refund(order: String) -> String {
///     format!("{order} is refunded")
/// }
///
/// let [spec] = tools![refund];
/// assert_eq!((spec.name.as_str(), spec.description.as_str()), ("refund", "Gives the money of an order back."));
/// ```
///
/// `tools![path, …]` takes functions with [`#[tool]`](macro@crate::prelude::tool) above them, and is an array of their
/// [`ToolSpec`](crate::ToolSpec)s, in this order. What has no `#[tool]` is refused at its path.
///
/// In `graph!`, `act = tools![lookup, refund]` is the node that makes the calls: see [`ToolNode`](crate::ToolNode).
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
