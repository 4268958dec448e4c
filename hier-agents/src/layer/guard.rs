use std::borrow::Cow;
use std::fmt;

use async_trait::async_trait;

use super::model_call::CallSite;
use super::{Layer, Verdict};
use hier_checkpoint::message::ToolCall;
use hier_core::NodeError;
use hier_core::state::{Contains, Values};

type Decide<P> = Box<dyn Fn(&ToolCall, &P) -> Verdict + Send + Sync>;

/// A layer with a function that allows, denies or revises tool calls. The layer calls the function before the run asks
/// a person for approval. The function receives the call and the state, or a part of the state. The layer does not call
/// the function if the model calls a subagent or a built-in tool.
///
/// ```
/// use hier_agents::layer::{Guard, Verdict};
/// use hier_agents::prelude::*;
/// use hier_core::message::ToolCall;
///
/// #[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
/// struct Chat {
///     #[state(flatten)]
///     base: BaseState,
///     verified: bool,
/// }
///
/// graph! {
///     Support<Chat> = Agent { tools: [refund], layers: [Guard(verified)] }
/// }
///
/// fn verified(call: &ToolCall, state: &Chat) -> Verdict {
///     match &*call.name {
///         "refund" if !state.verified => Verdict::Deny("the customer is not verified yet".to_owned()),
///         _ => Verdict::Allow,
///     }
/// }
///
/// /// Pays an order back.
/// #[tool(needs_approval)]
/// async fn refund(order: u32) -> String {
///     format!("order {order} is paid back")
/// }
/// # let _ = Support::compile();
/// ```
///
/// The function must have no side effects, because it can run several times for one call. The function runs again when
/// the run resumes after the approval, and once more if the person changed the arguments.
pub struct Guard<P> {
    decide: Decide<P>,
}

impl<P> fmt::Debug for Guard<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Guard").finish_non_exhaustive()
    }
}

impl<P> Guard<P> {
    /// Creates a layer that calls `decide` before each tool call. The function receives the call, and the part of the
    /// agent's state with the type `P`.
    pub fn new(decide: impl Fn(&ToolCall, &P) -> Verdict + Send + Sync + 'static) -> Self {
        Self { decide: Box::new(decide) }
    }
}

#[async_trait]
impl<S, C, P> Layer<S, C> for Guard<P>
where
    S: Values + Contains<P>,
    C: Send + Sync + 'static,
    P: Values,
{
    fn name(&self) -> Cow<'static, str> {
        "Guard".into()
    }

    async fn check(&self, call: &ToolCall, site: CallSite<'_, S, C>) -> Result<Verdict, NodeError> {
        Ok((self.decide)(call, site.state().part()))
    }
}
