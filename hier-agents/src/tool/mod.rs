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

/// A tool that a model can call in graphs with the state `S` and the context `C`. `#[tool]` implements it; see [its
/// page](macro@crate::prelude::tool). To implement it manually, use [`async_trait`](hier_core::async_trait).
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a tool for agents over `{S}` with the context `{C}`",
    label = "not a tool for agents over `{S}` with the context `{C}`",
    note = "a tool's `&Run<…>` must be of the agent's context, and the agent's state must contain what the tool reads",
    note = "for a function `lookup` with `#[tool]`, the tool is `lookup::TOOL`"
)]
#[async_trait]
pub trait Tool<S: Values, C>: Send + Sync + 'static {
    /// Returns the name, description and arguments of the tool for the model.
    fn spec(&self) -> ToolSpec;

    /// Returns true if a person must approve each call.
    fn needs_approval(&self) -> bool {
        false
    }

    /// Returns the trust labels: the kinds of data that the tool reads, and if it sends data. Defaults to no labels.
    fn labels(&self) -> TrustLabels {
        TrustLabels::NONE
    }

    /// Returns the calls that a person must approve. Defaults to all or none, as
    /// [`needs_approval`](Self::needs_approval) returns.
    fn approval(&self) -> ApprovalMode {
        if self.needs_approval() { ApprovalMode::Always } else { ApprovalMode::Never }
    }

    /// Returns true if a person must approve this call. Only called for [`ApprovalMode::Condition`], once per call,
    /// since the result is stored. `labels` are those of the conversation. Defaults to true.
    fn must_approve<'a>(
        &'a self,
        call: &'a ToolCall,
        task: &'a Task<S, C>,
        labels: TrustLabels,
    ) -> BoxFuture<'a, Result<bool, NodeError>> {
        let _ = (call, task, labels);
        Box::pin(std::future::ready(Ok(true)))
    }

    /// Returns a description of invalid arguments, without making the call. The model then receives it, and no approval
    /// is requested.
    ///
    /// The agent has already converted arguments to the types of the schema where the intended value is clear. Defaults
    /// to validation against the schema.
    fn mistake(&self, call: &ToolCall) -> Option<String> {
        ToolArguments::misfits(call, &self.spec().parameters)
    }

    /// Calls the tool.
    ///
    /// # Errors
    ///
    /// Returns an error if the tool fails. For invalid arguments, return [`ToolOutput::Invalid`] instead.
    async fn call(&self, call: &ToolCall, task: &Task<S, C>) -> Result<ToolOutput<S>, NodeError>;
}

/// A tool with a name that is known at compile time, so that the compiler can reject two tools of the same name.
/// `#[tool]` implements it.
///
/// A `#[tool]` function becomes a type. Its value is [`TOOL`](Self::TOOL).
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
    /// The trust labels of the tool, for the checks of `graph!`. Defaults to no labels. At run time, use
    /// [`Tool::labels`].
    const TRUST: ToolTrust = ToolTrust::NONE;
    /// The declared questions that a call can ask. By default it makes no claims.
    #[doc(hidden)]
    const QUESTIONS: QuestionFacts = QuestionFacts::Unknown;
}

/// A tool whose description does not depend on a state and a context. `#[tool]` implements it, and
/// [`tools!`](crate::tools) lists such descriptions.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a tool",
    label = "not a tool",
    note = "write `#[tool]` above an `async fn`"
)]
pub trait DeclaredTool: NamedTool {
    /// Returns the name, description and arguments of the tool for models.
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
/// `tools![path, …]` takes functions with [`#[tool]`](macro@crate::prelude::tool), and is an array of their
/// [`ToolSpec`](crate::ToolSpec)s in this order. A path without `#[tool]` is a compile error.
///
/// In `graph!`, `act = tools![lookup, refund]` is the node that makes the calls: see [`ToolNode`](crate::ToolNode).
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
    /// The content of the result message.
    Content(Content),
    /// Messages that are added unchanged. One of them must answer the call.
    Messages(Vec<Message>),
    /// A command with an update and targets. The messages in the update must answer the call.
    Command(Command<S>),
    /// A description of invalid arguments. The model receives it, regardless of [`ToolErrors`](crate::ToolErrors).
    Invalid(String),
}
