//! The conditions under which a person must approve a call.

use std::fmt;
use std::future::Future;
use std::sync::Arc;

use async_trait::async_trait;
use futures_core::future::BoxFuture;
use hier_spec::trust::TrustLabels;
use serde_json::Value;

use super::{NamedTool, Tool, ToolOutput};
use crate::model::ToolSpec;
use hier_checkpoint::message::ToolCall;
use hier_core::graph::Task;
use hier_core::state::Values;
use hier_core::{IntoNodeError, NodeError};

/// The rule that decides which calls of a tool a person must approve.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum ApprovalMode {
    /// No call needs approval.
    #[default]
    Never,
    /// Every call needs approval.
    Always,
    /// Calls need approval after untrusted text has entered the conversation. If the state does not record
    /// [labels](crate::ConversationLabels), all calls need approval.
    Tainted,
    /// [`Tool::must_approve`] decides for each call if it needs approval.
    Condition,
}

/// A tool whose arguments can be read as one value of the type `A`. This type is the tool's `#[args]` struct, or a
/// struct with a field for each argument ([`ArgsOf`]). `#[tool]` implements this trait.
pub trait ToolArgs<A>: NamedTool {
    /// Deserializes the arguments of a call. If they are invalid, returns a description of the invalid arguments as the
    /// error.
    fn read_args(call: &ToolCall) -> Result<A, String>;
}

/// A tool whose function has a parameter for each argument. `#[tool]` implements this trait for such functions.
pub trait NamedArgs: NamedTool {
    /// A struct with a field for each argument.
    type Args;
}

/// A struct with a field for each argument of the tool `T`. Use this type in conditions for approval: `fn
/// is_large(args: &ArgsOf<refund>, shop: &Shop) -> bool`.
pub type ArgsOf<T> = <T as NamedArgs>::Args;

/// A placeholder for the tools of a toolset. With this type, an approval condition for a toolset receives the arguments
/// of a call as JSON.
#[doc(hidden)]
#[derive(Debug)]
pub struct AnyTool;

impl NamedTool for AnyTool {
    const NAME: &'static str = "";
    const TOOL: Self = Self;
}

impl ToolArgs<Value> for AnyTool {
    fn read_args(call: &ToolCall) -> Result<Value, String> {
        Ok(call.args.clone())
    }
}

/// The result type of an [`ApprovalCondition`]: `bool` or `Result<bool, _>`.
#[diagnostic::on_unimplemented(
    message = "a condition of `approve` cannot return a `{Self}`",
    label = "neither a `bool` nor a `Result` of one",
    note = "return true if a person must approve the call"
)]
pub trait IntoDecision {
    /// Converts the result of the condition. `Ok(true)` means that a person must approve the call.
    fn into_decision(self) -> Result<bool, NodeError>;
}

impl IntoDecision for bool {
    fn into_decision(self) -> Result<bool, NodeError> {
        Ok(self)
    }
}

impl<E: IntoNodeError> IntoDecision for Result<bool, E> {
    fn into_decision(self) -> Result<bool, NodeError> {
        self.map_err(IntoNodeError::into_node_error)
    }
}

/// A function that returns true if a person must approve a call. Its first parameter is the arguments of the call. The
/// optional second parameter is the context, and the optional third is the [labels](crate::TrustLabels) of the
/// conversation. The function may be async.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot decide about the approval of this tool",
    label = "not a condition for these arguments and the context `{C}`",
    note = "a condition takes `&{A}`, then optionally `&{C}` and `TrustLabels`, and returns a `bool`; it may be async"
)]
pub trait ApprovalCondition<A, C, M>: Send + Sync + 'static {
    /// Returns true if a person must approve the call.
    fn decide<'a>(&'a self, args: &'a A, context: &'a C, labels: TrustLabels)
    -> BoxFuture<'a, Result<bool, NodeError>>;
}

/// The parameter `M` of [`ApprovalCondition`] for a synchronous function with `N` parameters.
#[doc(hidden)]
#[derive(Debug)]
pub struct SyncCondition<const N: usize>;
/// The parameter `M` of [`ApprovalCondition`] for an async function with `N` parameters.
#[doc(hidden)]
#[derive(Debug)]
pub struct AsyncCondition<const N: usize>;

/// An async function whose reference parameters have the same lifetime.
#[doc(hidden)]
pub trait AsyncFunction<Args>: Send + Sync {
    type Decision: IntoDecision;
    type Future: Future<Output = Self::Decision> + Send;
    fn start(&self, args: Args) -> Self::Future;
}

macro_rules! conditions {
    ($n:literal $args:ident $context:ident $labels:ident $(, $arg:ident $any:ident [$($given:tt)+] [$($tied:tt)+])+) => {
        impl<F, R, Fut, $($any),+> AsyncFunction<($($any,)+)> for F
        where
            F: Fn($($any),+) -> Fut + Send + Sync,
            Fut: Future<Output = R> + Send,
            R: IntoDecision,
        {
            type Decision = R;
            type Future = Fut;

            fn start(&self, ($($arg,)+): ($($any,)+)) -> Fut {
                self($($arg),+)
            }
        }

        impl<F, A, C> ApprovalCondition<A, C, AsyncCondition<$n>> for F
        where
            F: for<'a> AsyncFunction<($($($tied)+,)+)> + 'static,
            A: Sync,
            C: Sync,
        {
            #[allow(unused_variables)]
            fn decide<'a>(&'a self, $args: &'a A, $context: &'a C, $labels: TrustLabels) -> Deciding<'a> {
                Box::pin(async move { self.start(($($arg,)+)).await.into_decision() })
            }
        }

        impl<F, R, A, C> ApprovalCondition<A, C, (SyncCondition<$n>, R)> for F
        where
            F: Fn($($($given)+),+) -> R + Send + Sync + 'static,
            R: IntoDecision,
        {
            #[allow(unused_variables)]
            fn decide<'a>(&'a self, $args: &'a A, $context: &'a C, $labels: TrustLabels) -> Deciding<'a> {
                Box::pin(std::future::ready(self($($arg),+).into_decision()))
            }
        }
    };
}

conditions!(1 args context labels, args X [&A] [&'a A]);
conditions!(2 args context labels, args X [&A] [&'a A], context Y [&C] [&'a C]);
conditions!(3 args context labels, args X [&A] [&'a A], context Y [&C] [&'a C], labels Z [TrustLabels] [TrustLabels]);

/// A decision in progress.
type Deciding<'a> = BoxFuture<'a, Result<bool, NodeError>>;

type Decide<C> = Arc<dyn for<'a> Fn(&'a ToolCall, &'a C, TrustLabels) -> Deciding<'a> + Send + Sync>;

/// A rule that decides which calls of a tool a person must approve. In `graph!`, write the rule in the list of tools:
/// `tools: [refund { approve: … }]`.
///
/// ```
/// use hier_agents::{AgentBuilder, ApprovalRule};
/// use hier_agents::prelude::*;
///
/// struct Shop {
///     base: BaseContext,
///     limit: f64,
/// }
/// # impl AsRef<BaseContext> for Shop {
/// #     fn as_ref(&self) -> &BaseContext {
/// #         &self.base
/// #     }
/// # }
///
/// /// Gives the money of an order back.
/// #[tool]
/// async fn refund(order: u32, eur: f64) -> String {
///     format!("{order}: {eur} euros")
/// }
///
/// fn is_large(args: &hier_agents::ArgsOf<refund>, shop: &Shop) -> bool {
///     args.eur > shop.limit
/// }
///
/// let rule = ApprovalRule::when(refund::TOOL, is_large);
/// let agent = AgentBuilder::<BaseState, Shop>::new("support").tool(rule.of(refund::TOOL)).compile();
/// # assert!(agent.is_ok());
/// ```
pub struct ApprovalRule<C> {
    mode: ApprovalMode,
    decide: Option<Decide<C>>,
}

impl<C> Clone for ApprovalRule<C> {
    fn clone(&self) -> Self {
        Self { mode: self.mode, decide: self.decide.clone() }
    }
}

impl<C> Default for ApprovalRule<C> {
    fn default() -> Self {
        Self { mode: ApprovalMode::Never, decide: None }
    }
}

impl<C> fmt::Debug for ApprovalRule<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ApprovalRule").field(&self.mode).finish()
    }
}

impl<C> ApprovalRule<C> {
    pub(crate) fn mode(&self) -> ApprovalMode {
        self.mode
    }

    pub(crate) fn is_set(&self) -> bool {
        self.mode != ApprovalMode::Never
    }
}

impl<C: Send + Sync + 'static> ApprovalRule<C> {
    /// Creates a rule that requires approval for every call.
    pub fn always() -> Self {
        Self { mode: ApprovalMode::Always, decide: None }
    }

    /// Creates a rule that requires approval for each call after untrusted text has entered the conversation.
    pub fn tainted() -> Self {
        Self { mode: ApprovalMode::Tainted, decide: None }
    }

    /// Creates a rule for calls of `_tool` that requires approval if the condition returns true. The condition runs
    /// once for each call, and its result is stored.
    pub fn when<T, A, M>(_tool: T, condition: impl ApprovalCondition<A, C, M>) -> Self
    where
        T: ToolArgs<A>,
        A: Send + Sync + 'static,
        M: 'static,
    {
        path_rule::<T, A, C, M, _>(condition)
    }

    /// Returns the tool with this rule. If the tool itself requires approval for a call, the call needs approval even
    /// if the rule does not require it.
    pub fn of<T>(self, tool: T) -> ApprovedTool<T, C> {
        ApprovedTool { tool, rule: self }
    }

    pub(crate) async fn asks(&self, call: &ToolCall, context: &C, labels: TrustLabels) -> Result<bool, NodeError> {
        match (self.mode, &self.decide) {
            (ApprovalMode::Never, _) => Ok(false),
            (ApprovalMode::Tainted, _) => Ok(labels.is_untrusted()),
            (ApprovalMode::Condition, Some(decide)) => decide(call, context, labels).await,
            (ApprovalMode::Always | ApprovalMode::Condition, _) => Ok(true),
        }
    }

    /// Returns true if a person must approve the call. Code that `#[tool]` generates calls this function.
    #[doc(hidden)]
    pub async fn decide(self, call: &ToolCall, context: &C, labels: TrustLabels) -> Result<bool, NodeError> {
        self.asks(call, context, labels).await
    }
}

/// The decision about unreadable arguments: they need approval. The call is refused before a person is asked.
const UNREADABLE: bool = true;

/// Creates a rule from a function. Code that the macros generate calls this function.
#[doc(hidden)]
pub fn path_rule<T, A, C, M, F>(condition: F) -> ApprovalRule<C>
where
    T: ToolArgs<A>,
    A: Send + Sync + 'static,
    C: Send + Sync + 'static,
    M: 'static,
    F: ApprovalCondition<A, C, M>,
{
    let condition = Arc::new(condition);
    rule(move |call, context, labels| {
        let condition = condition.clone();
        Box::pin(async move {
            let Ok(args) = T::read_args(call) else { return Ok(UNREADABLE) };
            condition.decide(&args, context, labels).await
        })
    })
}

/// Creates a rule from a closure. Code that the macros generate calls this function.
#[doc(hidden)]
pub fn sync_rule<T, A, C, R, F>(condition: F) -> ApprovalRule<C>
where
    T: ToolArgs<A>,
    R: IntoDecision,
    F: Fn(&A, &C, TrustLabels) -> R + Send + Sync + 'static,
{
    rule(move |call, context, labels| {
        let decision = match T::read_args(call) {
            Ok(args) => condition(&args, context, labels).into_decision(),
            Err(_) => Ok(UNREADABLE),
        };
        Box::pin(std::future::ready(decision))
    })
}

/// Creates a rule from an async closure. Code that the macros generate calls this function.
#[doc(hidden)]
pub fn async_rule<T, A, C, R, F>(condition: F) -> ApprovalRule<C>
where
    T: ToolArgs<A>,
    A: Send + Sync + 'static,
    C: Send + Sync + 'static,
    R: IntoDecision,
    F: for<'a> Fn(&'a A, &'a C, TrustLabels) -> BoxFuture<'a, R> + Send + Sync + 'static,
{
    let condition = Arc::new(condition);
    rule(move |call, context, labels| {
        let condition = condition.clone();
        Box::pin(async move {
            let Ok(args) = T::read_args(call) else { return Ok(UNREADABLE) };
            condition(&args, context, labels).await.into_decision()
        })
    })
}

fn rule<C>(
    decide: impl for<'a> Fn(&'a ToolCall, &'a C, TrustLabels) -> Deciding<'a> + Send + Sync + 'static,
) -> ApprovalRule<C> {
    ApprovalRule { mode: ApprovalMode::Condition, decide: Some(Arc::new(decide)) }
}

/// A tool with an [`ApprovalRule`]. [`ApprovalRule::of`] returns it.
#[derive(Debug)]
pub struct ApprovedTool<T, C> {
    tool: T,
    rule: ApprovalRule<C>,
}

#[async_trait]
impl<S, C, T> Tool<S, C> for ApprovedTool<T, C>
where
    S: Values,
    C: Send + Sync + 'static,
    T: Tool<S, C>,
{
    fn spec(&self) -> ToolSpec {
        self.tool.spec()
    }

    fn needs_approval(&self) -> bool {
        self.tool.needs_approval() || self.rule.mode == ApprovalMode::Always
    }

    fn labels(&self) -> TrustLabels {
        self.tool.labels()
    }

    fn approval(&self) -> ApprovalMode {
        either(self.tool.approval(), self.rule.mode)
    }

    fn must_approve<'a>(&'a self, call: &'a ToolCall, task: &'a Task<S, C>, labels: TrustLabels) -> Deciding<'a> {
        Box::pin(async move {
            Ok(self.rule.asks(call, task.run().context(), labels).await?
                || asks(&self.tool, call, task, labels).await?)
        })
    }

    fn mistake(&self, call: &ToolCall) -> Option<String> {
        self.tool.mistake(call)
    }

    async fn call(&self, call: &ToolCall, task: &Task<S, C>) -> Result<ToolOutput<S>, NodeError> {
        self.tool.call(call, task).await
    }
}

/// Returns the mode of a tool with two rules. A call needs approval if one of the rules requires it.
fn either(one: ApprovalMode, other: ApprovalMode) -> ApprovalMode {
    match (one, other) {
        (ApprovalMode::Never, mode) | (mode, ApprovalMode::Never) => mode,
        (ApprovalMode::Always, _) | (_, ApprovalMode::Always) => ApprovalMode::Always,
        (ApprovalMode::Tainted, ApprovalMode::Tainted) => ApprovalMode::Tainted,
        _ => ApprovalMode::Condition,
    }
}

/// Returns true if a person must approve this call of a tool.
pub(crate) async fn asks<S: Values, C: Send + Sync + 'static>(
    tool: &dyn Tool<S, C>,
    call: &ToolCall,
    task: &Task<S, C>,
    labels: TrustLabels,
) -> Result<bool, NodeError> {
    match tool.approval() {
        ApprovalMode::Never => Ok(false),
        ApprovalMode::Always => Ok(true),
        ApprovalMode::Tainted => Ok(labels.is_untrusted()),
        ApprovalMode::Condition => tool.must_approve(call, task, labels).await,
    }
}
