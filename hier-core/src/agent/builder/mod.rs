//! Builds agents at run time, with the checks of the macro as errors.

mod dynamic;

use std::fmt;
use std::sync::Arc;

use hier_spec::GraphSpec;
use hier_spec::agent::{AgentShape, NODES, TODO_INCOMPLETE, TOOLS};

use crate::agent::hierarchy::child::Role;
use crate::agent::hierarchy::subagent::Subagent;
use crate::agent::react::{Agent, DEFAULT_MAX_ITERATIONS, IntoPrompt, Prompt, Todo, ToolErrors};
use crate::agent::state::base::BaseState;
use crate::agent::state::context::BaseContext;
use crate::agent::tool::Tool;
use crate::agent::words;
use crate::channel::ChannelSpec;
use crate::engine::program::{Hooks, SpecRef};
use crate::error::BuildError;
use crate::graph::{CompiledGraph, Parts};
use crate::state::{Contains, State, Values, WritableChannel, Writes};

/// Builds an agent at run time: the same as `ReactGraph { … }` and `TodoGraph { … }` in `graph!`, with errors instead of
/// compile errors.
///
/// ```
/// use hier_core::agent::AgentBuilder;
/// use hier_testkit::ScriptedModel;
/// use hier_core::prelude::*;
/// use serde_json::json;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<()> {
/// let desk = AgentBuilder::<BaseState>::react("desk").system("You run the desk.").compile_as_root()?;
/// let call = ToolCall { name: "finish_task".into(), args: json!({"result": "done"}), id: "1".into() };
/// let model = ScriptedModel::new([Message::calls("", [call])]);
/// let out = desk.invoke(BaseState::update(), Config::default(), BaseContext::new(model)).await?;
/// assert_eq!(out.state().current_agent_report, "done");
/// # Ok(())
/// # }
/// ```
#[must_use = "a builder does nothing until it is compiled"]
pub struct AgentBuilder<S: Values, C = BaseContext> {
    agent: Agent<S, C>,
    description: String,
    subagents: Vec<Subagent<S, C>>,
    front: Vec<Subagent<S, C>>,
    back: Vec<Subagent<S, C>>,
    channels: Vec<ChannelSpec>,
    initial: Arc<dyn Fn() -> S + Send + Sync>,
    reports: Option<bool>,
    mistakes: Vec<String>,
}

impl<S: State + Contains<BaseState>, C: AsRef<BaseContext> + Send + Sync + 'static> AgentBuilder<S, C> {
    /// An agent that asks its model what to do.
    pub fn react(name: impl Into<Arc<str>>) -> Self {
        Self::over(name, S::CHANNELS.iter().cloned().collect(), Arc::new(S::default))
    }

    /// The same with a list of things to do, which must be done before it reports.
    pub fn todo(name: impl Into<Arc<str>>) -> Self {
        Self::react(name).with_todo()
    }
}

impl<S, C> AgentBuilder<S, C>
where
    S: Values + Contains<BaseState>,
    C: AsRef<BaseContext> + Send + Sync + 'static,
{
    /// An agent over a state with these channels.
    pub(crate) fn over(
        name: impl Into<Arc<str>>,
        channels: Vec<ChannelSpec>,
        initial: Arc<dyn Fn() -> S + Send + Sync>,
    ) -> Self {
        let agent = Agent {
            name: name.into(),
            system: Prompt::Text(words::DEFAULT_SYSTEM.into()),
            reasoning: Prompt::Text(words::DEFAULT_REASONING.into()),
            tools: Vec::new(),
            subagents: Vec::new(),
            max_iterations: DEFAULT_MAX_ITERATIONS,
            reports: true,
            report_into: None,
            todo: None,
            parallel: false,
            errors: ToolErrors::default(),
            callees: std::collections::HashMap::new(),
            specs: Arc::from([]),
        };
        let (subagents, front, back) = (Vec::new(), Vec::new(), Vec::new());
        let (description, reports, mistakes) = (String::new(), None, Vec::new());
        Self { agent, description, subagents, front, back, channels, initial, reports, mistakes }
    }
}

impl<S: Values, C: Send + Sync + 'static> AgentBuilder<S, C> {
    pub(crate) fn with_todo(mut self) -> Self {
        self.agent.todo = Some(Todo { check: None, refusal: words::DEFAULT_TODO.into() });
        self
    }

    /// What the agent is for: told to the model of its supervisor.
    pub fn description(mut self, text: impl Into<String>) -> Self {
        self.description = text.into();
        self
    }

    /// What the agent's model is told to be: a text, or a function of the state that makes one when the agent is
    /// entered.
    pub fn system<M>(mut self, text: impl IntoPrompt<S, M>) -> Self {
        self.agent.system = text.into_prompt().0;
        self
    }

    /// What the agent's model is asked each time: a text, or a function of the state that makes one.
    pub fn reasoning<M>(mut self, text: impl IntoPrompt<S, M>) -> Self {
        self.agent.reasoning = text.into_prompt().0;
        self
    }

    /// A tool that the model can call.
    pub fn tool(self, tool: impl Tool<S, C>) -> Self {
        self.shared_tool(Arc::new(tool))
    }

    /// A tool that several agents share.
    pub fn shared_tool(mut self, tool: Arc<dyn Tool<S, C>>) -> Self {
        self.agent.tools.push(tool);
        self
    }

    /// How often the agent may ask its model. At least 1; [`DEFAULT_MAX_ITERATIONS`](super::DEFAULT_MAX_ITERATIONS)
    /// unless given.
    pub fn max_iterations(mut self, iterations: u32) -> Self {
        self.agent.max_iterations = iterations;
        self
    }

    /// Whether the agent has a supervisor to report to. It does, unless it is compiled as a root.
    pub fn reports_to_supervisor(mut self, reports: bool) -> Self {
        self.reports = Some(reports);
        self
    }

    /// Another channel that the report is written to when the agent ends: one of a text, or of an optional one.
    ///
    /// ```
    /// # use hier_core::agent::AgentBuilder;
    /// # use hier_core::prelude::*;
    /// #[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
    /// struct Filing {
    ///     #[state(flatten)]
    ///     base: BaseState,
    ///     artifact: Option<String>,
    /// }
    ///
    /// let stage = AgentBuilder::<Filing>::react("stage").report_into(&Filing::channels().artifact);
    /// # let _ = stage;
    /// ```
    pub fn report_into<K>(self, channel: &'static K) -> Self
    where
        K: WritableChannel + Sync,
        K::Value: From<String>,
        S: Contains<K::State>,
    {
        self.report_with(move |report| {
            [<S as Contains<K::State>>::lift(channel.write_of(report.into()))].into_iter().collect()
        })
    }

    pub(crate) fn report_with(mut self, write: impl Fn(String) -> Writes<S> + Send + Sync + 'static) -> Self {
        self.agent.report_into = Some(Arc::new(write));
        self
    }

    /// Keeps a mistake for the report of all.
    pub(crate) fn mistaken(mut self, mistake: String) -> Self {
        self.mistakes.push(mistake);
        self
    }

    /// When the agent may report. Without it: once its list is not empty and all of it is done. Makes it an agent with
    /// a list.
    pub fn todo_check(mut self, check: impl Fn(&S) -> bool + Send + Sync + 'static) -> Self {
        let refusal = self.agent.todo.take().map_or_else(|| words::DEFAULT_TODO.into(), |todo| todo.refusal);
        self.agent.todo = Some(Todo { check: Some(Arc::new(check)), refusal });
        self
    }

    /// What the agent's model is told when it reports too early. Makes it an agent with a list.
    pub fn todo_refusal(mut self, text: impl Into<Arc<str>>) -> Self {
        let check = self.agent.todo.take().and_then(|todo| todo.check);
        self.agent.todo = Some(Todo { check, refusal: text.into() });
        self
    }

    /// Lets the model call several subagents at once: they run side by side, each on a copy of the state, and what they
    /// give back is merged by the reducers.
    pub fn parallel_subagents(mut self, parallel: bool) -> Self {
        self.agent.parallel = parallel;
        self
    }

    /// What becomes of a tool that fails.
    pub fn tool_errors(mut self, errors: ToolErrors) -> Self {
        self.agent.errors = errors;
        self
    }

    /// A graph that the model can call.
    pub fn subagent(mut self, subagent: Subagent<S, C>) -> Self {
        self.subagents.push(subagent);
        self
    }

    /// A graph that runs before the model is asked, after those given before it.
    pub fn front(mut self, stage: Subagent<S, C>) -> Self {
        self.front.push(stage);
        self
    }

    /// A graph that runs after the report, after those given before it.
    pub fn back(mut self, stage: Subagent<S, C>) -> Self {
        self.back.push(stage);
        self
    }
}

impl<S, C> AgentBuilder<S, C>
where
    S: Values + Contains<BaseState>,
    C: AsRef<BaseContext> + Send + Sync + 'static,
{
    /// The agent, ready to run by itself or to be a subagent, or everything that is wrong with it.
    pub fn compile(self) -> Result<CompiledGraph<S, C>, BuildError> {
        self.build(true)
    }

    /// The agent as the root of a hierarchy: it has nobody to report to, and ends with `finish_task`.
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
        let mut names = NODES.iter().map(|name| (*name).to_owned()).collect();
        let mut place = |stages: &mut [Subagent<S, C>]| {
            for stage in stages {
                stage.node.name = unused(&stage.name, &mut names).into();
            }
        };
        place(&mut self.subagents);
        place(&mut self.front);
        place(&mut self.back);
        let shape = self.shape();
        let spec = GraphSpec { name: graph.into(), doc: self.description.into(), ..shape.spec() };
        let parts = self.agent.parts(SpecRef::Owned(Arc::new(spec)), [self.subagents, self.front, self.back]);
        Ok(CompiledGraph::new(parts, self.initial, self.channels))
    }

    fn shape(&self) -> AgentShape {
        let nodes = |stages: &[Subagent<S, C>]| stages.iter().map(|stage| stage.node.clone()).collect();
        AgentShape {
            todo: self.agent.todo.is_some(),
            subagents: nodes(&self.subagents),
            front: nodes(&self.front),
            back: nodes(&self.back),
        }
    }

    /// Everything that is wrong.
    fn mistakes(&self) -> Vec<String> {
        let mut mistakes = self.mistakes.clone();
        if self.agent.max_iterations == 0 {
            mistakes.push("an agent with `max_iterations` 0 can do nothing: give it at least 1".to_owned());
        }
        let tools = self.agent.tools.iter().map(|tool| ("tool", tool.spec().name));
        let subagents = self.subagents.iter().map(|subagent| ("subagent", subagent.name.to_string()));
        let mut known: Vec<(&str, String)> = TOOLS.iter().map(|tool| ("built-in tool", (*tool).to_owned())).collect();
        known.extend(NODES.iter().chain([&TODO_INCOMPLETE]).map(|node| ("node of every agent", (*node).to_owned())));
        for (kind, name) in tools.chain(subagents) {
            // Only a subagent is a node.
            let other =
                known.iter().find(|(what, other)| *other == name && (kind == "subagent" || !what.starts_with("node")));
            if let Some((what, _)) = other {
                mistakes.push(format!("the {kind} `{name}` has the name of a {what}: rename one"));
            }
            known.push((kind, name));
        }
        for subagent in self.subagents.iter().filter(|_| self.agent.parallel) {
            let name = &subagent.name;
            let Some(policy) = &subagent.policy else {
                mistakes.push(format!(
                    "subagents that run side by side each need a policy of their own: give `{name}` one"
                ));
                continue;
            };
            let plain =
                |field: &&str| self.channels.iter().any(|spec| spec.name == **field && spec.kind.single_writer());
            mistakes.extend(policy.merged().filter(plain).map(|field| {
                format!(
                    "the channel `{field}`, which `{name}` gives back, has no reducer, and several subagents may write it at \
                     once: give it one, or do not let them run side by side"
                )
            }));
        }
        for stage in self.front.iter().chain(&self.back).filter(|stage| stage.asks_model) {
            mistakes.push(format!(
                "`{}` asks a model, itself or in a graph within it, and a front or back stage must not: make it a subagent",
                stage.name
            ));
        }
        let outer: Vec<&str> = self.channels.iter().map(|channel| &*channel.name).collect();
        for stage in self.subagents.iter().chain(&self.front).chain(&self.back) {
            let inner: Vec<&str> = stage.channels.iter().map(|channel| &*channel.name).collect();
            let found = stage.policy.iter().flat_map(|policy| policy.mistakes(&outer, &inner));
            mistakes.extend(found.map(|mistake| format!("subagent `{}`: {mistake}", stage.name)));
        }
        mistakes
    }
}

/// The name, with a number if it is used already.
fn unused(name: &str, names: &mut Vec<String>) -> String {
    let numbered = (2..).map(|number| format!("{name}_{number}"));
    let free = std::iter::once(name.to_owned()).chain(numbered).find(|name| !names.contains(name));
    let free = free.unwrap_or_else(|| name.to_owned());
    names.push(free.clone());
    free
}

/// The code of an agent that the macro has checked.
#[doc(hidden)]
pub fn agent<S, C>(
    todo: bool,
    spec: &'static GraphSpec,
    root: bool,
    tell: fn(AgentBuilder<S, C>) -> AgentBuilder<S, C>,
) -> Parts<S, C>
where
    S: State + Contains<BaseState>,
    C: AsRef<BaseContext> + Send + Sync + 'static,
{
    let name = spec.name.as_ref();
    let mut builder = tell(if todo { AgentBuilder::todo(name) } else { AgentBuilder::react(name) });
    builder.agent.reports = builder.reports.unwrap_or(!root);
    builder.agent.parts(SpecRef::Static(spec), [builder.subagents, builder.front, builder.back])
}

impl<S, C> Agent<S, C>
where
    S: Values + Contains<BaseState>,
    C: AsRef<BaseContext> + Send + Sync + 'static,
{
    /// The agent's graph: its own nodes, then those of its subagents and stages, in the order of the spec.
    pub(crate) fn parts(mut self, spec: SpecRef, [subagents, front, back]: [Vec<Subagent<S, C>>; 3]) -> Parts<S, C> {
        let first = spec.nodes.len() - subagents.len() - front.len() - back.len();
        let nodes = spec.nodes[first..].iter();
        self.subagents = nodes.zip(&subagents).map(|(node, subagent)| subagent.card(&node.name)).collect();
        self.index();
        let mut code = Arc::new(self).nodes();
        code.extend(subagents.into_iter().map(|subagent| subagent.node(Role::Tool)));
        code.extend(front.into_iter().chain(back).map(|stage| stage.node(Role::Stage)));
        Parts { spec, nodes: code, routes: Vec::new(), hooks: Hooks::default(), is_agent: true, lenient: false }
    }
}

impl<S: Values, C> fmt::Debug for AgentBuilder<S, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AgentBuilder").field("name", &self.agent.name).finish_non_exhaustive()
    }
}
