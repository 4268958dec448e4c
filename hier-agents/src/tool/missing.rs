//! The placeholder for a tool that a graph names but that does not exist. Used by the macro.

use async_trait::async_trait;

use super::{NamedTool, Tool, ToolOutput};
use crate::model::ToolSpec;
use hier_checkpoint::message::ToolCall;
use hier_core::NodeError;
use hier_core::graph::Task;
use hier_core::state::Values;

#[doc(hidden)]
/// The placeholder that code from `graph!` uses for a tool that does not exist. It causes a compile error with a hint.
#[derive(Clone, Copy, Debug)]
pub struct MissingTool<T>(T, Never);

#[derive(Clone, Copy, Debug)]
enum Never {}

#[doc(hidden)]
/// A trait that no type implements. It reports the missing tool.
#[diagnostic::on_unimplemented(
    message = "cannot find a tool with this name",
    label = "not a tool",
    note = "write `#[tool]` above the `async fn`; if the function is in another module, `use` it"
)]
pub trait FoundTool: Copy + Send + Sync + 'static {
    /// The placeholder for the missing tool.
    const TOOL: MissingTool<Self>;
}

impl<T: FoundTool> NamedTool for MissingTool<T> {
    const NAME: &'static str = "";
    const TOOL: Self = T::TOOL;
}

// Implemented for every state and context to avoid further errors.
#[async_trait]
impl<T: Copy + Send + Sync + 'static, S: Values, C: 'static> Tool<S, C> for MissingTool<T> {
    fn spec(&self) -> ToolSpec {
        match self.1 {}
    }

    async fn call(&self, _: &ToolCall, _: &Task<S, C>) -> Result<ToolOutput<S>, NodeError> {
        match self.1 {}
    }
}
