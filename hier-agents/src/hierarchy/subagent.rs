use std::fmt;
use std::sync::{Arc, OnceLock};

use hier_spec::trust::{GraphTrust, TrustSource};
use hier_spec::{GraphSpec, NestedSpec, NodeSpec};
use schemars::JsonSchema;
use serde::de::DeserializeOwned;

use crate::hierarchy::background::{BackgroundNode, BudgetOf};
use crate::hierarchy::child::{ChildBorder, ChildRole, SubagentNode};
use crate::hierarchy::policy::SubagentPolicy;
use crate::react::{ArgsSpec, BackgroundRunner, BackgroundSet, SubagentTool};
use crate::redaction::RedactorOf;
use crate::state::base::BaseState;
use crate::state::context::BaseContext;
use hier_core::channel::ChannelSpec;
use hier_core::graph::{Child, CompiledGraph, NodeDef, Task};
use hier_core::internals::{Attached, ContextFn, Shares, SpecRef, body};
use hier_core::state::{Contains, SharesWith, Values};

/// A compiled graph that an agent with the state `S` can call.
///
/// ```
/// # use hier_agents::{AgentBuilder, Subagent, SubagentPolicy};
/// # use hier_agents::prelude::*;
/// # fn main() -> Result<(), hier_core::BuildError> {
/// let worker = AgentBuilder::<BaseState>::react("worker").description("does the work").compile()?;
/// let policy = SubagentPolicy::new().merge_fields(["todo_list"]);
/// let desk = AgentBuilder::<BaseState>::react("desk").subagent(Subagent::new(&worker).policy(policy)).compile_as_root()?;
/// assert!(desk.spec().nodes.iter().any(|node| node.name == "worker"));
/// # Ok(())
/// # }
/// ```
#[must_use = "a subagent does nothing until an agent has it"]
pub struct Subagent<S: Values, C = BaseContext> {
    pub(crate) name: Arc<str>,
    description: Arc<str>,
    pub(crate) node: NodeSpec,
    pub(crate) channels: Arc<[ChannelSpec]>,
    pub(crate) asks_model: bool,
    pub(crate) policy: Option<SubagentPolicy>,
    trust: GraphTrust,
    /// True if a merged channel may carry text. `None` means that every merged channel may.
    merges_text: Option<bool>,
    args: Option<ArgsSpec>,
    make: MakeChild<S, C>,
}

type MakeChild<S, C> =
    Box<dyn FnOnce(ChildRole, ChildBorder, ArgsSpec, (BudgetOf<C>, RedactorOf<C>)) -> MadeChild<S, C> + Send>;

/// A subagent or stage as a node.
pub(crate) struct MadeChild<S: Values, C> {
    child: Child<S, C>,
    /// Runs the subagent in the background. `None` for stages and for other subagents.
    pub(crate) runner: Option<Arc<dyn BackgroundRunner<S, C>>>,
}

impl<S: Values + Contains<BaseState>, C: Send + Sync + 'static> Subagent<S, C> {
    /// Creates a subagent from a graph. Without a [`policy`](Self::policy), the subagent shares its supervisor's state.
    pub fn new<T, I, O>(graph: &CompiledGraph<T, C, I, O>) -> Self
    where
        T: Values + SharesWith<S>,
    {
        Self::with(graph, Arc::clone)
    }

    pub(crate) fn with<T, D, I, O>(graph: &CompiledGraph<T, D, I, O>, context: ContextFn<C, D>) -> Self
    where
        T: Values + SharesWith<S>,
        D: Send + Sync + 'static,
    {
        let inner = graph.program().clone();
        let spec: Arc<GraphSpec> = match &inner.spec {
            SpecRef::Owned(spec) => spec.clone(),
            SpecRef::Static(spec) => Arc::new(GraphSpec::clone(spec)),
        };
        let name: Arc<str> = spec.name.as_ref().into();
        let (description, channels, called) = (spec.doc.as_ref().into(), inner.channels.clone(), name.clone());
        let asks_model = inner.asks_model();
        let node = NodeSpec { name: spec.name.clone(), nested: Some(NestedSpec::Owned(spec)), ..NodeSpec::new("") };
        let trust = inner.trust;
        let make: MakeChild<S, C> = Box::new(move |role, border, args, (budget, redactor)| {
            let is_background = matches!(role, ChildRole::Tool(_)) && border.is_background();
            let graph = if is_background { inner.with_inbox() } else { inner };
            let attached = Attached { graph, context, shares: Shares::new() };
            let node = SubagentNode { attached, redactor, name: called, role, border, args, layout: OnceLock::new() };
            if !is_background {
                return MadeChild { child: Child::new(node), runner: None };
            }
            let node = BackgroundNode::new(node, budget);
            MadeChild { child: Child::new(node.clone()), runner: Some(Arc::new(node)) }
        });
        let (policy, merges_text, args) = (None, None, None);
        Self { name, description, node, channels, asks_model, policy, trust, merges_text, args, make }
    }

    /// Sets the policy. If you call this method again, the options that the second policy sets replace those of the
    /// first policy. The other options of the first policy stay unchanged.
    pub fn policy(mut self, policy: SubagentPolicy) -> Self {
        self.policy = Some(match self.policy.take() {
            Some(old) => policy.or(old),
            None => policy,
        });
        self
    }

    /// Sets the description that the supervisor's model receives. Defaults to the description of the graph.
    pub fn description(mut self, text: impl Into<Arc<str>>) -> Self {
        self.description = text.into();
        self
    }

    /// Sets the type of the arguments with which the supervisor's model calls the subagent. The type is a struct with a
    /// field for each argument. By default, the model calls the subagent with the arguments `task`, `task_scope` and
    /// `task_iterations`. The subagent reads the arguments with [`BaseState::args`].
    pub fn args<A: JsonSchema + DeserializeOwned>(self) -> Self {
        self.typed_args(Some(ArgsSpec::of_type::<A>()))
    }

    /// Sets whether a merged channel may carry text. By default every merged channel may.
    pub(crate) fn merging_text(mut self, merges_text: bool) -> Self {
        self.merges_text = Some(merges_text);
        self
    }

    pub(crate) fn typed_args(mut self, args: Option<ArgsSpec>) -> Self {
        self.args = args;
        self
    }
}

impl<S: Values, C> fmt::Debug for Subagent<S, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Subagent").field("name", &self.name).field("policy", &self.policy).finish_non_exhaustive()
    }
}

impl<S: Values, C: Send + Sync + 'static> Subagent<S, C> {
    pub(crate) fn as_tool(&self, node: &str) -> SubagentTool {
        SubagentTool {
            name: self.name.clone(),
            description: self.description.clone(),
            node: node.into(),
            args: self.args.clone().unwrap_or_default(),
            is_background: self.is_background(),
            is_detached: self.policy.as_ref().is_some_and(SubagentPolicy::is_detached),
        }
    }

    pub(crate) fn is_background(&self) -> bool {
        self.policy.as_ref().is_some_and(SubagentPolicy::is_background)
    }

    /// Returns true if the supervisor receives no text except the report.
    fn returns_only_report(&self) -> bool {
        let merges_text = |policy: &SubagentPolicy| self.merges_text.unwrap_or(policy.merged().next().is_some());
        self.policy.as_ref().is_some_and(|policy| !merges_text(policy))
    }

    /// Describes the trust of the subagent, as its supervisor sees it.
    pub(crate) fn trust_source(&self) -> TrustSource<'_> {
        TrustSource::graph(&self.name, self.trust, self.returns_only_report())
    }

    pub(crate) fn make(self, role: ChildRole, caller: (BudgetOf<C>, RedactorOf<C>)) -> MadeChild<S, C> {
        let only_report = self.returns_only_report();
        let border = ChildBorder { policy: self.policy, trust: self.trust, only_report };
        (self.make)(role, border, self.args.unwrap_or_default(), caller)
    }
}

impl<S: Values + Contains<BaseState>, C: Send + Sync + 'static> MadeChild<S, C> {
    /// Returns the node, which also keeps the background subagents of the agent running.
    pub(crate) fn into_node(self, background: &Arc<BackgroundSet<S, C>>) -> NodeDef<S, C> {
        let (runs, background) = (self.child.clone(), background.clone());
        let code = body(move |task: &Task<S, C>| {
            let (runs, kept) = (runs.clone(), background.keep_running(task));
            Box::pin(async move {
                kept?;
                runs.run(task).await
            })
        });
        NodeDef::from_body(code, Some(self.child))
    }
}
