//! Turns a builder into a graph: checked at run time, or already checked by the macro.

use std::sync::Arc;

use hier_spec::GraphSpec;
use hier_spec::agent::{AgentKind, AgentShape};
use serde_json::Value;

use crate::builder::AgentBuilder;
use crate::builder::trust::untrusted_input;
use crate::hierarchy::child::{ChildRole, Supervisor};
use crate::hierarchy::subagent::{MadeChild, Subagent};
use crate::layer::{InheritedLayers, ListedLayer};
use crate::react::{AgentDef, BackgroundSet};
use crate::state::base::BaseState;
use crate::state::budget::Budget;
use crate::state::context::AgentContext;
use hier_core::BuildError;
use hier_core::graph::{CompiledGraph, Parts};
use hier_core::internals::{Enter, Hooks, SpecRef};
use hier_core::state::{Contains, State, Values, Writes};

impl<S, C> AgentBuilder<S, C>
where
    S: Values + Contains<BaseState>,
    C: AgentContext + Send + Sync + 'static,
{
    /// Compiles the agent to a graph, which can run on its own or as a subagent.
    ///
    /// # Errors
    ///
    /// Returns an error that lists all mistakes of the agent, such as two tools with the same name.
    pub fn compile(self) -> Result<CompiledGraph<S, C>, BuildError> {
        self.build(true)
    }

    /// Compiles the agent as the root of a hierarchy. The model of a `ReactGraph` or `TodoGraph` then ends the agent
    /// with the tool `finish_task` instead of `report_to_supervisor`. For an `Agent`, this method does the same as
    /// [`compile`](Self::compile).
    ///
    /// # Errors
    ///
    /// Returns an error that lists all mistakes of the agent, such as two tools with the same name.
    pub fn compile_as_root(self) -> Result<CompiledGraph<S, C>, BuildError> {
        self.build(false)
    }

    fn build(mut self, reports: bool) -> Result<CompiledGraph<S, C>, BuildError> {
        self.agent.reports = self.reports.unwrap_or(reports);
        let graph = self.agent.name.to_string();
        let mistakes = self.mistakes();
        if !mistakes.is_empty() {
            return Err(BuildError { graph, mistakes });
        }
        let mut names = self.agent.kind.nodes().iter().map(|name| (*name).to_owned()).collect();
        let mut place = |stages: &mut [Subagent<S, C>]| {
            for stage in stages {
                stage.node.name = unused(&stage.name, &mut names).into();
            }
        };
        place(&mut self.subagents);
        place(&mut self.front);
        place(&mut self.back);
        let (shape, trust, asked, is_untrusted) =
            (self.shape(), self.trust(), self.questions(), self.declared.is_input_untrusted);
        let spec = GraphSpec { name: graph.into(), doc: self.description.into(), ..shape.spec() };
        let parts = self.agent.parts(SpecRef::Owned(Arc::new(spec)), [self.subagents, self.front, self.back]);
        let parts = parts.trusted(trust).asking(asked);
        let parts = if is_untrusted { untrusted_input(parts) } else { parts };
        Ok(CompiledGraph::new(parts, self.initial, self.channels))
    }

    fn shape(&self) -> AgentShape {
        let nodes = |stages: &[Subagent<S, C>]| stages.iter().map(|stage| stage.node.clone()).collect();
        AgentShape {
            kind: self.agent.kind,
            subagents: nodes(&self.subagents),
            front: nodes(&self.front),
            back: nodes(&self.back),
            layers: self.agent.layers.iter().map(|layer| layer.name().into()).collect(),
        }
    }
}

/// Returns the name. Adds a number if the name is already used.
fn unused(name: &str, names: &mut Vec<String>) -> String {
    let numbered = (2..).map(|number| format!("{name}_{number}"));
    let free = std::iter::once(name.to_owned()).chain(numbered).find(|name| !names.contains(name));
    let free = free.unwrap_or_else(|| name.to_owned());
    names.push(free.clone());
    free
}

/// Creates the parts of an agent's graph. `spec` is the description of the graph, which the macro has checked.
#[doc(hidden)]
pub fn agent<S, C>(
    kind: AgentKind,
    spec: &'static GraphSpec,
    root: bool,
    configure: fn(AgentBuilder<S, C>) -> AgentBuilder<S, C>,
) -> Parts<S, C>
where
    S: State + Contains<BaseState>,
    C: AgentContext + Send + Sync + 'static,
{
    let name = spec.name.as_ref();
    let mut builder = configure(AgentBuilder::typed(kind, name));
    builder.agent.reports = builder.reports.unwrap_or(!root);
    builder.agent.parts(SpecRef::Static(spec), [builder.subagents, builder.front, builder.back])
}

impl<S, C> AgentDef<S, C>
where
    S: Values + Contains<BaseState>,
    C: AgentContext + Send + Sync + 'static,
{
    /// Assembles the agent's graph: its own nodes, then the nodes of its subagents and stages, in the order of the
    /// spec.
    pub(crate) fn parts(mut self, spec: SpecRef, [subagents, front, back]: [Vec<Subagent<S, C>>; 3]) -> Parts<S, C> {
        let first = spec.nodes.len() - subagents.len() - front.len() - back.len();
        let nodes = spec.nodes[first..].iter();
        self.subagents = nodes.zip(&subagents).map(|(node, subagent)| subagent.as_tool(&node.name)).collect();
        let exit = spec.nodes.get(spec.nodes.len() - back.len());
        self.exit = exit.map(|stage| stage.name.as_ref().into());
        let keeps_count = self.converses();
        let inherited: Vec<_> = self.layers.iter().filter_map(ListedLayer::inherited).collect();
        self.passes_on = !inherited.is_empty();
        let layers = self.layers.iter().map(ListedLayer::name).collect();
        let names = subagents.iter().map(|subagent| subagent.name.clone()).collect();
        let supervisor = Supervisor { subagents: names, keeps_count };
        let budget: fn(&C) -> Option<&Arc<Budget>> = |context| context.as_ref().budget.as_ref();
        let caller = || (budget, self.redactor());
        let tools = subagents.into_iter().map(|subagent| subagent.make(ChildRole::Tool(supervisor.clone()), caller()));
        let stages = front.into_iter().chain(back).map(|stage| stage.make(ChildRole::Stage, caller()));
        let children: Vec<MadeChild<S, C>> = tools.chain(stages).collect();
        let nodes = spec.nodes[first..].iter().map(|node| node.name.as_ref().into());
        let runners = nodes.zip(&children).filter_map(|(node, child)| Some((node, child.runner.clone()?)));
        self.background = Arc::new(BackgroundSet(runners.collect()));
        self.index();
        let detached = self.background.clone();
        let agent = Arc::new(self);
        let mut code = agent.nodes();
        code.extend(children.into_iter().map(|child| child.into_node(&agent.background)));
        let scope = (!inherited.is_empty()).then(|| -> Enter<C> {
            Arc::new(move |outer, context| {
                let outer = outer.and_then(|outer| outer.downcast_ref());
                Arc::new(InheritedLayers::extended(outer, &inherited, context))
            })
        });
        let prepare = Arc::new(move |state: &S, withdrawn: Option<&[Value]>, input: Writes<S>| {
            agent.prepare(state, withdrawn, input)
        });
        let hooks = Hooks::made(layers, scope, prepare);
        let hooks = if detached.has_detached() { hooks.detached(detached) } else { hooks };
        Parts::made(spec, code, hooks).agent()
    }
}
