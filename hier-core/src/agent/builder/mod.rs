//! Builds agents at run time, with the checks of the macro as errors.

mod dynamic;

use std::fmt;
use std::sync::Arc;

use hier_spec::GraphSpec;
use hier_spec::agent::{AgentKind, AgentShape};

use crate::agent::hierarchy::child::{Role, Supervisor};
use crate::agent::hierarchy::subagent::Subagent;
use crate::agent::layer::{Heirs, Layer, Listed, mistake_of};
use crate::agent::model::ChatModel;
use crate::agent::options::ModelOptions;
use crate::agent::react::{
    Agent, Answer, AnswerChannel, DEFAULT_ATTEMPTS, DEFAULT_MAX_ITERATIONS, IntoPrompt, Prompt, Todo,
};
use crate::agent::state::base::BaseState;
use crate::agent::state::context::{AgentContext, BaseContext};
use crate::agent::tool::Tool;
use crate::agent::tool::errors::ToolErrors;
use crate::agent::tool::set::Toolset;
use crate::agent::toolsets::{Toolsets, toolset_of};
use crate::agent::words;
use crate::channel::ChannelSpec;
use crate::engine::program::{Enter, Hooks, SpecRef};
use crate::error::BuildError;
use crate::graph::{CompiledGraph, Parts};
use crate::state::{Contains, State, Values, WritableChannel, Writes};

/// Builds an agent at run time: the same as `Agent { … }`, `ReactGraph { … }` and `TodoGraph { … }` in `graph!`, with errors
/// instead of compile errors.
///
/// ```
/// use hier_core::agent::{AgentBuilder, AgentEnd};
/// use hier_testkit::ScriptedModel;
/// use hier_core::prelude::*;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<()> {
/// let desk = AgentBuilder::<BaseState>::new("desk").system("You answer customers.").compile()?;
/// let context = BaseContext::new(ScriptedModel::new([Message::assistant("We open at nine.")]));
/// let out = desk.invoke(Message::user("When do you open?"), Config::default(), context).await?;
/// assert_eq!(out.ending(), Some(&AgentEnd::Text));
/// assert_eq!(out.state().current_agent_report, "We open at nine.");
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
    /// An agent that ends when its model answers without a call, or with the [`answer`](Self::answer) that it is for: an
    /// `Agent`.
    pub fn new(name: impl Into<Arc<str>>) -> Self {
        Self::typed(AgentKind::Agent, name)
    }

    /// A member of a hierarchy that asks its model what to do until it reports: a `ReactGraph`.
    pub fn react(name: impl Into<Arc<str>>) -> Self {
        Self::typed(AgentKind::React, name)
    }

    /// The same with a list of things to do, which must be done before it reports: a `TodoGraph`.
    pub fn todo(name: impl Into<Arc<str>>) -> Self {
        Self::typed(AgentKind::Todo, name)
    }

    fn typed(kind: AgentKind, name: impl Into<Arc<str>>) -> Self {
        Self::over(kind, name, S::CHANNELS.iter().cloned().collect(), Arc::new(S::default))
    }
}

impl<S, C> AgentBuilder<S, C>
where
    S: Values + Contains<BaseState>,
    C: AgentContext + Send + Sync + 'static,
{
    /// An agent over a state with these channels.
    pub(crate) fn over(
        kind: AgentKind,
        name: impl Into<Arc<str>>,
        channels: Vec<ChannelSpec>,
        initial: Arc<dyn Fn() -> S + Send + Sync>,
    ) -> Self {
        let system = if kind == AgentKind::Agent { "" } else { words::DEFAULT_SYSTEM };
        let todo = (kind == AgentKind::Todo).then(|| Todo { check: None, refusal: words::DEFAULT_TODO.into() });
        let agent = Agent {
            kind,
            name: name.into(),
            model: None,
            options: ModelOptions::default(),
            system: Prompt::Text(system.into()),
            reasoning: Prompt::Text(words::DEFAULT_REASONING.into()),
            tools: Vec::new(),
            toolsets: Toolsets(Vec::new()),
            subagents: Vec::new(),
            max_iterations: DEFAULT_MAX_ITERATIONS,
            reports: true,
            report_into: None,
            todo,
            answer: None,
            attempts: DEFAULT_ATTEMPTS,
            exit: None,
            parallel: false,
            errors: ToolErrors::default(),
            layers: Vec::new(),
            passes_on: false,
            callees: std::collections::HashMap::new(),
            specs: Arc::from([]),
            ending_specs: Arc::from([]),
        };
        let (subagents, front, back) = (Vec::new(), Vec::new(), Vec::new());
        let (description, reports, mistakes) = (String::new(), None, Vec::new());
        Self { agent, description, subagents, front, back, channels, initial, reports, mistakes }
    }
}

impl<S: Values, C: Send + Sync + 'static> AgentBuilder<S, C> {
    /// What the agent is for: told to the model of its supervisor.
    pub fn description(mut self, text: impl Into<String>) -> Self {
        self.description = text.into();
        self
    }

    /// What the agent's model is told to be: a text, or a function of the state that makes one. An `Agent` sends it with
    /// each question, in front of the conversation, and stores it nowhere; a member that reports makes it when it is
    /// entered.
    pub fn system<M>(mut self, text: impl IntoPrompt<S, M>) -> Self {
        self.agent.system = text.into_prompt().0;
        self
    }

    /// What the model is asked each time: a text, or a function of the state that makes one. Not of an `Agent`, which only
    /// sends what was said.
    pub fn reasoning<M>(mut self, text: impl IntoPrompt<S, M>) -> Self {
        self.only("reasoning", AgentKind::React);
        self.agent.reasoning = text.into_prompt().0;
        self
    }

    /// The model that the agent asks: chosen of the context. Unless given: the context's own, [`BaseContext::model`].
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use hier_core::agent::{AgentBuilder, ChatModel};
    /// # use hier_core::prelude::*;
    /// struct Desk {
    ///     base: BaseContext,
    ///     smart: Arc<dyn ChatModel>,
    /// }
    /// # impl AsRef<BaseContext> for Desk {
    /// #     fn as_ref(&self) -> &BaseContext {
    /// #         &self.base
    /// #     }
    /// # }
    ///
    /// let agent = AgentBuilder::<BaseState, Desk>::new("support").model(|desk| &desk.smart);
    /// # let _ = agent;
    /// ```
    pub fn model<M: ChatModel>(mut self, choose: impl for<'a> Fn(&'a C) -> &'a M + Send + Sync + 'static) -> Self {
        self.agent.model = Some(Arc::new(move |context| choose(context)));
        self
    }

    /// How its model is to answer. What is not set is left to the model.
    pub fn options(mut self, options: ModelOptions) -> Self {
        self.agent.options = options;
        self
    }

    /// How many answers of the model may be of no use before the agent fails: of an `Agent`. At least 1; 3 unless given.
    pub fn attempts(mut self, attempts: u32) -> Self {
        self.agent.attempts = attempts;
        self
    }

    /// A layer around the calls of models and tools, inside of those given before it: see [`layer`](crate::agent::layer).
    ///
    /// ```
    /// # use hier_core::agent::AgentBuilder;
    /// # use hier_core::agent::layer::Emails;
    /// # use hier_core::prelude::*;
    /// let agent = AgentBuilder::<BaseState>::new("support").layer(Limit::new().model_calls(50)).layer(Redact::new(Emails));
    /// # let _ = agent;
    /// ```
    pub fn layer(mut self, layer: impl Layer<S, C>) -> Self {
        self.mistakes.extend(layer.mistake());
        let listed = Listed::new(&self.agent.name, self.agent.layers.len(), Arc::new(layer));
        self.agent.layers.push(listed);
        self
    }

    /// A tool that the model can call: of a function with `#[tool]` its [`TOOL`](crate::agent::NamedTool::TOOL).
    ///
    /// ```
    /// # use hier_core::agent::AgentBuilder;
    /// # use hier_core::prelude::*;
    /// /// What was paid for an order.
    /// #[tool]
    /// async fn order(number: u32) -> String {
    ///     format!("{number}: 30 euros")
    /// }
    ///
    /// let agent = AgentBuilder::<BaseState>::new("support").tool(order::TOOL);
    /// # let _ = agent;
    /// ```
    pub fn tool(self, tool: impl Tool<S, C>) -> Self {
        self.shared_tool(Arc::new(tool))
    }

    /// A tool that several agents share.
    pub fn shared_tool(mut self, tool: Arc<dyn Tool<S, C>>) -> Self {
        self.agent.tools.push(tool);
        self
    }

    /// A [`Toolset`] of the context, whose tools the model can call as well: `.toolset(|desk| &desk.crm)`.
    pub fn toolset<T: Toolset>(mut self, choose: impl for<'a> Fn(&'a C) -> &'a T + Send + Sync + 'static) -> Self {
        self.agent.toolsets.0.push(toolset_of(choose).0);
        self
    }

    /// How often the agent may ask its model. At least 1; [`DEFAULT_MAX_ITERATIONS`](super::DEFAULT_MAX_ITERATIONS)
    /// unless given.
    pub fn max_iterations(mut self, iterations: u32) -> Self {
        self.agent.max_iterations = iterations;
        self
    }

    /// Whether the agent has a supervisor to report to. It does, unless it is compiled as a root. Not of an `Agent`, whose
    /// answer is its report.
    pub fn reports_to_supervisor(mut self, reports: bool) -> Self {
        self.only("reports_to_supervisor", AgentKind::React);
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

    /// The channel that the agent gives its answer in: of an `Agent`. It ends when its model has given a value of the
    /// channel's type, or of what is in its `Option`; what does not fit goes back to the model, as often as
    /// [`attempts`](Self::attempts) says. The answer as text is the report.
    ///
    /// ```
    /// # use hier_core::agent::{AgentBuilder, AgentEnd};
    /// # use hier_core::prelude::*;
    /// # use hier_testkit::ScriptedModel;
    /// # use serde_json::json;
    /// #[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
    /// struct Verdict {
    ///     accepted: bool,
    /// }
    ///
    /// #[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
    /// struct Review {
    ///     #[state(flatten)]
    ///     base: BaseState,
    ///     verdict: Option<Verdict>,
    /// }
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<()> {
    /// let judge = AgentBuilder::<Review>::new("judge").answer(&Review::channels().verdict).compile()?;
    /// let model = ScriptedModel::new([Message::call("final_answer", json!({"accepted": true}))]);
    /// let out = judge.invoke(Message::user("Is it right?"), Config::default(), BaseContext::new(model)).await?;
    /// assert_eq!(out.ending(), Some(&AgentEnd::Answer));
    /// assert_eq!(out.state().verdict, Some(Verdict { accepted: true }));
    /// # Ok(())
    /// # }
    /// ```
    pub fn answer<K: AnswerChannel>(mut self, channel: &'static K) -> Self
    where
        S: Contains<K::State>,
    {
        self.only("answer", AgentKind::Agent);
        let initial = self.initial.clone();
        self.agent.answer = Some(Answer::of(
            channel.channel_name(),
            |value| <S as Contains<K::State>>::lift(channel.write_of(value)),
            move || <S as Contains<K::State>>::lift(channel.write_as_in(initial().part())),
        ));
        self
    }

    pub(crate) fn report_with(mut self, write: impl Fn(String) -> Writes<S> + Send + Sync + 'static) -> Self {
        self.agent.report_into = Some(Arc::new(write));
        self
    }

    /// An option that agents of one kind have, or become one of that kind by.
    fn only(&mut self, option: &str, kind: AgentKind) {
        match (self.agent.kind, kind) {
            (AgentKind::React, AgentKind::Todo) => self.agent.kind = kind,
            (AgentKind::Agent, AgentKind::React | AgentKind::Todo) => {
                self.mistakes.push(format!("an `Agent` has no `{option}`: it ends when its model answers"));
            }
            (AgentKind::React | AgentKind::Todo, AgentKind::Agent) => self.mistakes.push(format!(
                "`{option}` is of an `Agent`; this one ends when it reports: use `AgentBuilder::new`, or `report_into`"
            )),
            _ => {}
        }
    }

    /// Keeps a mistake for the report of all.
    pub(crate) fn mistaken(mut self, mistake: String) -> Self {
        self.mistakes.push(mistake);
        self
    }

    /// When the agent may report. Without it: once its list is not empty and all of it is done. Makes a
    /// `ReactGraph` a `TodoGraph`.
    pub fn todo_check(mut self, check: impl Fn(&S) -> bool + Send + Sync + 'static) -> Self {
        self.only("todo_check", AgentKind::Todo);
        let refusal = self.agent.todo.take().map_or_else(|| words::DEFAULT_TODO.into(), |todo| todo.refusal);
        self.agent.todo = Some(Todo { check: Some(Arc::new(check)), refusal });
        self
    }

    /// What the agent's model is told when it reports too early. Makes a `ReactGraph` a `TodoGraph`.
    pub fn todo_refusal(mut self, text: impl Into<Arc<str>>) -> Self {
        self.only("todo_refusal", AgentKind::Todo);
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
    C: AgentContext + Send + Sync + 'static,
{
    /// The agent, ready to run by itself or to be a subagent, or everything that is wrong with it.
    pub fn compile(self) -> Result<CompiledGraph<S, C>, BuildError> {
        self.build(true)
    }

    /// The agent as the root of a hierarchy: one that reports has nobody to report to, and ends with `finish_task`. An `Agent`
    /// ends as it always does.
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
        let shape = self.shape();
        let spec = GraphSpec { name: graph.into(), doc: self.description.into(), ..shape.spec() };
        let parts = self.agent.parts(SpecRef::Owned(Arc::new(spec)), [self.subagents, self.front, self.back]);
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

    /// Everything that is wrong.
    fn mistakes(&self) -> Vec<String> {
        let mut mistakes = self.mistakes.clone();
        if self.agent.max_iterations == 0 {
            mistakes.push("an agent with `max_iterations` 0 can do nothing: give it at least 1".to_owned());
        }
        if self.agent.attempts == 0 {
            mistakes.push("an agent with `attempts` 0 could give no answer: give it at least 1".to_owned());
        }
        mistakes.extend(mistake_of(&self.agent.layers));
        let tools = self.agent.tools.iter().map(|tool| ("tool", tool.spec().name));
        let subagents = self.subagents.iter().map(|subagent| ("subagent", subagent.name.to_string()));
        let reserved =
            |what: &'static str, names: &'static [&str]| names.iter().map(move |name| (what, (*name).to_owned()));
        let kind = self.agent.kind;
        let mut known: Vec<(&str, String)> = reserved("built-in tool", kind.reserved_tools()).collect();
        known.extend(reserved("node of every agent", kind.reserved_nodes()));
        for (kind, name) in tools.chain(subagents) {
            mistakes.extend(hier_spec::names::callable(kind, &name));
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
    kind: AgentKind,
    spec: &'static GraphSpec,
    root: bool,
    tell: fn(AgentBuilder<S, C>) -> AgentBuilder<S, C>,
) -> Parts<S, C>
where
    S: State + Contains<BaseState>,
    C: AgentContext + Send + Sync + 'static,
{
    let name = spec.name.as_ref();
    let mut builder = tell(AgentBuilder::typed(kind, name));
    builder.agent.reports = builder.reports.unwrap_or(!root);
    builder.agent.parts(SpecRef::Static(spec), [builder.subagents, builder.front, builder.back])
}

impl<S, C> Agent<S, C>
where
    S: Values + Contains<BaseState>,
    C: AgentContext + Send + Sync + 'static,
{
    /// The agent's graph: its own nodes, then those of its subagents and stages, in the order of the spec.
    pub(crate) fn parts(mut self, spec: SpecRef, [subagents, front, back]: [Vec<Subagent<S, C>>; 3]) -> Parts<S, C> {
        let first = spec.nodes.len() - subagents.len() - front.len() - back.len();
        let nodes = spec.nodes[first..].iter();
        self.subagents = nodes.zip(&subagents).map(|(node, subagent)| subagent.card(&node.name)).collect();
        let exit = spec.nodes.get(spec.nodes.len() - back.len());
        self.exit = exit.map(|stage| stage.name.as_ref().into());
        self.index();
        let keeps_count = self.converses();
        let heirs: Vec<_> = self.layers.iter().filter_map(Listed::inherited).collect();
        self.passes_on = !heirs.is_empty();
        let layers = self.layers.iter().map(Listed::name).collect();
        let agent = Arc::new(self);
        let mut code = agent.nodes();
        let names = subagents.iter().map(|subagent| subagent.name.clone()).collect();
        let supervisor = Supervisor { subagents: names, keeps_count };
        code.extend(subagents.into_iter().map(|subagent| subagent.node(Role::Tool(supervisor.clone()))));
        code.extend(front.into_iter().chain(back).map(|stage| stage.node(Role::Stage)));
        let scope = (!heirs.is_empty()).then(|| -> Enter<C> {
            Arc::new(move |outer, context| {
                let outer = outer.and_then(|outer| outer.downcast_ref());
                Arc::new(Heirs::extended(outer, &heirs, context))
            })
        });
        let prepare = Some(Arc::new(move |state: &S| agent.prepare(state)) as Arc<_>);
        let hooks = Hooks { layers, scope, prepare, ..Hooks::default() };
        Parts {
            spec,
            nodes: code,
            routes: Vec::new(),
            hooks,
            is_agent: true,
            is_part: false,
            lenient: false,
            inbox: None,
        }
    }
}

impl<S: Values, C> fmt::Debug for AgentBuilder<S, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AgentBuilder").field("name", &self.agent.name).finish_non_exhaustive()
    }
}
