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

/// A tool that a model can call, in graphs over `S` with the context `C`. `#[tool]` implements it. Implement it by hand
/// with [`async_trait`](hier_core::async_trait).
///
/// See [the attribute's page](macro@crate::prelude::tool) for its grammar, parameters and results.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a tool for agents over `{S}` with the context `{C}`",
    label = "not a tool for agents over `{S}` with the context `{C}`",
    note = "a tool's `&Run<…>` must be of the agent's context, and the agent's state must contain what the tool reads",
    note = "for a function `lookup` with `#[tool]`, the tool is `lookup::TOOL`"
)]
#[async_trait]
pub trait Tool<S: Values, C>: Send + Sync + 'static {
    /// Returns the description for the model.
    fn spec(&self) -> ToolSpec;

    /// Returns true if a person must approve each call.
    fn needs_approval(&self) -> bool {
        false
    }

    /// Returns what the tool reads, and whether it sends. Defaults to no labels, which claim nothing.
    fn labels(&self) -> TrustLabels {
        TrustLabels::NONE
    }

    /// Returns when a person must approve a call. Defaults to [`needs_approval`](Self::needs_approval).
    fn approval(&self) -> ApprovalMode {
        if self.needs_approval() { ApprovalMode::Always } else { ApprovalMode::Never }
    }

    /// Returns true if a person must approve this call. Called for [`ApprovalMode::Condition`], once for each call: the
    /// result is stored. The labels are those of the conversation. Defaults to true.
    fn must_approve<'a>(
        &'a self,
        call: &'a ToolCall,
        task: &'a Task<S, C>,
        labels: TrustLabels,
    ) -> BoxFuture<'a, Result<bool, NodeError>> {
        let _ = (call, task, labels);
        Box::pin(std::future::ready(Ok(true)))
    }

    /// Returns an error in the arguments that can be found without making the call. The agent first converts incorrect
    /// arguments to the types of the schema if the intended value is clear. If a call that needs approval still has an
    /// error, the model receives it and no approval is requested. Defaults to validation against the schema.
    fn mistake(&self, call: &ToolCall) -> Option<String> {
        ToolArguments::misfits(call, &self.spec().parameters)
    }

    /// Calls the tool. An error is a failure of the tool; invalid arguments are [`ToolOutput::Invalid`].
    async fn call(&self, call: &ToolCall, task: &Task<S, C>) -> Result<ToolOutput<S>, NodeError>;
}

/// A tool whose name is known at compile time, so that the compiler can reject two tools with the same name. `#[tool]`
/// implements it.
///
/// The path of such a tool is a type; its value is [`TOOL`](Self::TOOL).
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a tool",
    label = "not a tool",
    note = "write `#[tool]` above an `async fn`"
)]
pub trait NamedTool: Sized + Send + Sync + 'static {
    /// The name under which models call the tool.
    const NAME: &'static str;
    /// The tool.
    const TOOL: Self;
    /// The labels of the tool, for the checks of `graph!`. Defaults to no labels, which claim nothing. At run time,
    /// [`Tool::labels`] has them.
    const TRUST: ToolTrust = ToolTrust::NONE;
    /// The declared questions that a call can ask. By default it makes no claims.
    #[doc(hidden)]
    const QUESTIONS: QuestionFacts = QuestionFacts::Unknown;
}

/// A tool whose description is known without a state and a context. `#[tool]` implements it; [`tools!`](crate::tools)
/// makes a list of such descriptions.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a tool",
    label = "not a tool",
    note = "write `#[tool]` above an `async fn`"
)]
pub trait DeclaredTool: NamedTool {
    /// Returns the description for models.
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
    /// An update of the state and the next node. Its messages must answer the call.
    Command(Command<S>),
    /// A description of invalid arguments. The model receives it, whatever the error policy.
    Invalid(String),
}
