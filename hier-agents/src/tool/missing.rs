//! What stands in where a graph names a tool and there is none. Used by the macro.

use async_trait::async_trait;

use super::{NamedTool, Tool, ToolOutput};
use crate::model::ToolSpec;
use hier_checkpoint::message::ToolCall;
use hier_core::NodeError;
use hier_core::graph::Task;
use hier_core::state::Values;

#[doc(hidden)]
/// No tool, which a graph named all the same. It cannot be made, and says what to do when it is to be used.
#[derive(Clone, Copy, Debug)]
pub struct MissingTool<T>(T, Never);

#[derive(Clone, Copy, Debug)]
enum Never {}

#[doc(hidden)]
/// Nothing has it: whoever needs it is told what is missing.
#[diagnostic::on_unimplemented(
    message = "there is no tool of this name",
    label = "no tool",
    note = "write `#[tool]` above the `async fn`; if that stands in another module, `use` it"
)]
pub trait Found: Copy + Send + Sync + 'static {
    /// What cannot be made.
    const TOOL: MissingTool<Self>;
}

impl<T: Found> NamedTool for MissingTool<T> {
    const NAME: &'static str = "";
    const TOOL: Self = T::TOOL;
}

// For every state and context, so that this is not told as well.
#[async_trait]
impl<T: Copy + Send + Sync + 'static, S: Values, C: 'static> Tool<S, C> for MissingTool<T> {
    fn spec(&self) -> ToolSpec {
        match self.1 {}
    }

    async fn call(&self, _: &ToolCall, _: &Task<S, C>) -> Result<ToolOutput<S>, NodeError> {
        match self.1 {}
    }
}
