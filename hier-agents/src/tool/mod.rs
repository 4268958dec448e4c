//! Tools that a model can call.

pub(crate) mod approval;
pub(crate) mod arguments;
pub(crate) mod attempts;
pub(crate) mod catalogue;
pub(crate) mod client;
pub(super) mod errors;
pub(crate) mod missing;
pub(super) mod output;
pub(crate) mod requested;
pub(crate) mod search;
pub(crate) mod step;
pub(crate) mod toolset;

use async_trait::async_trait;
use futures_core::future::BoxFuture;
use hier_spec::trust::{ToolTrust, TrustLabels};

use self::approval::ApprovalMode;
use self::arguments::ToolArguments;
use crate::model::ToolSpec;
use hier_checkpoint::message::{Content, Message, ToolCall};
use hier_core::graph::{Command, Task};
use hier_core::state::Values;
use hier_core::{NodeError, QuestionFacts};

/// A tool that a model can call in graphs with the state `S` and the context `C`. The attribute
/// [`#[tool]`](macro@crate::prelude::tool) implements this trait for a function. To implement the trait manually, use
/// [`async_trait`](hier_core::async_trait).
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a tool for agents over `{S}` with the context `{C}`",
    label = "not a tool for agents over `{S}` with the context `{C}`",
    note = "a tool's `&Run<…>` must be of the agent's context, and the agent's state must contain what the tool reads",
    note = "for a function `lookup` with `#[tool]`, the tool is `lookup::TOOL`"
)]
#[async_trait]
pub trait Tool<S: Values, C>: Send + Sync + 'static {
    /// Returns the name, the description and the schema of the arguments, which the model receives.
    fn spec(&self) -> ToolSpec;

    /// Returns true if a person must approve every call of this tool. Defaults to false.
    fn needs_approval(&self) -> bool {
        false
    }

    /// Returns the trust labels of the tool. The labels say if the tool reads private data, reads untrusted text, or
    /// sends data. Defaults to no labels.
    fn labels(&self) -> TrustLabels {
        TrustLabels::NONE
    }

    /// Returns the rule that decides which calls a person must approve. Defaults to [`ApprovalMode::Always`] if
    /// [`needs_approval`](Self::needs_approval) returns true, and otherwise to [`ApprovalMode::Never`].
    fn approval(&self) -> ApprovalMode {
        if self.needs_approval() { ApprovalMode::Always } else { ApprovalMode::Never }
    }

    /// Returns true if a person must approve this call. `labels` are the labels of the conversation. The agent calls
    /// this method only if [`approval`](Self::approval) returns [`ApprovalMode::Condition`]. It stores the result, so
    /// the method runs once for each call. Defaults to true.
    fn must_approve<'a>(
        &'a self,
        call: &'a ToolCall,
        task: &'a Task<S, C>,
        labels: TrustLabels,
    ) -> BoxFuture<'a, Result<bool, NodeError>> {
        let _ = (call, task, labels);
        Box::pin(std::future::ready(Ok(true)))
    }

    /// Checks the arguments of a call without making the call. Returns `None` if they are valid, and otherwise a
    /// description of the mistake for the model. If there is a mistake, the agent neither makes the call nor asks for
    /// approval.
    ///
    /// Before this check, the agent converts arguments to the types of the schema where the intended value is clear,
    /// such as `"5"` for a number. Defaults to validation against the schema.
    fn mistake(&self, call: &ToolCall) -> Option<String> {
        ToolArguments::misfits(call, &self.spec().parameters)
    }

    /// Calls the tool.
    ///
    /// Cancel safety: hier drops the future if the run is cancelled or the node times out.
    ///
    /// # Errors
    ///
    /// Fails if the tool fails. For invalid arguments, return [`ToolOutput::Invalid`] instead of an error.
    async fn call(&self, call: &ToolCall, task: &Task<S, C>) -> Result<ToolOutput<S>, NodeError>;
}

/// A tool whose name is known at compile time, so that the compiler can reject two tools with the same name. `#[tool]`
/// implements this trait.
///
/// `#[tool]` replaces a function with a type that has one value, [`TOOL`](Self::TOOL).
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a tool",
    label = "not a tool",
    note = "write `#[tool]` above an `async fn`"
)]
pub trait NamedTool: Sized + Send + Sync + 'static {
    /// The name of the tool for models.
    const NAME: &'static str;
    /// The tool.
    const TOOL: Self;
    /// The trust labels of the tool, which `graph!` checks at compile time. Defaults to no labels. At run time, use
    /// [`Tool::labels`].
    const TRUST: ToolTrust = ToolTrust::NONE;
    /// The [declared questions](hier_core::DeclaredQuestion) that a call of the tool can ask. By default, these
    /// questions are unknown.
    #[doc(hidden)]
    const QUESTIONS: QuestionFacts = QuestionFacts::Unknown;
}

/// A tool whose spec does not depend on a state and a context. `#[tool]` implements this trait, and
/// [`tools!`](crate::tools) returns the specs of such tools.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a tool",
    label = "not a tool",
    note = "write `#[tool]` above an `async fn`"
)]
pub trait DeclaredTool: NamedTool {
    /// Returns the name, the description and the schema of the arguments, which models receive.
    fn declared() -> ToolSpec;
}

/// Returns the specs of tools for a model request in a custom node: `run.model()?.ask(messages).tools(tools![lookup,
/// refund])`.
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
/// `tools![path, …]` takes the paths of functions with [`#[tool]`](macro@crate::prelude::tool), and returns an array of
/// their [`ToolSpec`](crate::ToolSpec)s in this order. A path of a function without `#[tool]` is a compile error.
///
/// In `graph!`, `act = tools![lookup, refund]` declares a node that makes the calls. See [`ToolNode`](crate::ToolNode).
#[doc(hidden)]
#[macro_export]
macro_rules! __hier_tools {
    ($($tool:path),* $(,)?) => {
        [$(<$tool as $crate::plumbing::DeclaredTool>::declared()),*]
    };
}
// Re-exported here because exported macros are at the root of the crate.
#[doc(inline)]
pub use __hier_tools as tools;

/// The result of a tool.
#[derive(Debug)]
#[non_exhaustive]
pub enum ToolOutput<S: Values> {
    /// The content of the result message, which the agent creates.
    Content(Content),
    /// Messages that the agent adds to the conversation. If none of them is a result of the call, the agent adds a
    /// result with the text "Done."
    Messages(Vec<Message>),
    /// A command with an update and targets. If the command is for this graph and its update does not contain a result
    /// of the call, the agent adds a result with the text "Done."
    Command(Command<S>),
    /// A description of invalid arguments. The model receives this description, even with
    /// [`ToolErrors::Raise`](crate::ToolErrors::Raise).
    Invalid(String),
}
