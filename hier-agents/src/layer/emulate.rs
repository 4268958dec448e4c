use std::borrow::Cow;
use std::fmt;

use async_trait::async_trait;

use super::tool_call::{ToolReply, ToolUse};
use super::{Layer, NextTool};
use hier_checkpoint::message::{Content, ToolCall};
use hier_core::NodeError;
use hier_core::state::Values;

/// A layer that replaces tools with a function, for tests. The function returns the result of a call, or `None` to run
/// the real tool. If a call needs approval, the run still asks for the approval first.
///
/// ```
/// use hier_agents::AgentBuilder;
/// use hier_agents::layer::Emulate;
/// use hier_agents::prelude::*;
/// use hier_testkit::ScriptedModel;
/// use serde_json::json;
///
/// /// Pays an order back.
/// #[tool]
/// async fn refund(order: u32) -> String {
///     panic!("order {order}: no money is paid in tests")
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> hier_core::Result<()> {
/// let paid = Emulate::new(|call| (call.name == "refund").then(|| format!("paid {}", call.args["order"])));
/// let desk = AgentBuilder::<BaseState>::new("desk").tool(refund::TOOL).layer(paid).compile()?;
/// let model = ScriptedModel::new([Message::call("refund", json!({"order": 7})), Message::assistant("Done.")]);
/// let out = desk.invoke(Message::user("Pay 7 back.")).context(BaseContext::new(model)).await?;
/// assert_eq!(out.state().messages.get(2).unwrap().text(), "paid 7");
/// # Ok(())
/// # }
/// ```
pub struct Emulate {
    answer: EmulatedAnswer,
}

type EmulatedAnswer = Box<dyn Fn(&ToolCall) -> Option<Content> + Send + Sync>;

impl fmt::Debug for Emulate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Emulate").finish_non_exhaustive()
    }
}

impl Emulate {
    /// Creates a layer that gets the results of tool calls from the function `answer`. If the function returns `None`,
    /// the real tool runs.
    pub fn new<T: Into<Content>>(answer: impl Fn(&ToolCall) -> Option<T> + Send + Sync + 'static) -> Self {
        Self { answer: Box::new(move |call| answer(call).map(Into::into)) }
    }
}

#[async_trait]
impl<S: Values, C: Send + Sync + 'static> Layer<S, C> for Emulate {
    fn name(&self) -> Cow<'static, str> {
        "Emulate".into()
    }

    async fn tool_call(&self, call: ToolUse<'_, S, C>, next: NextTool<'_, S, C>) -> Result<ToolReply<S>, NodeError> {
        match (self.answer)(&call.call) {
            Some(content) => Ok(ToolReply::content(content)),
            None => next.call(call).await,
        }
    }
}
