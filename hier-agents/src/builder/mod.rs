//! Builds agents at run time, with the checks of the macro as errors.

mod check;
mod dynamic;
mod ending;
mod parts;
mod probe;
mod prompt;
mod questions;
mod search;
mod trust;

use std::fmt;
use std::sync::Arc;

use hier_spec::agent::AgentKind;

use self::trust::TrustDeclarations;
use crate::hierarchy::subagent::Subagent;
use crate::layer::{Layer, ListedLayer};
use crate::model::ChatModel;
use crate::options::ModelOptions;
use crate::prompts;
use crate::react::{AgentDef, DEFAULT_ATTEMPTS, DEFAULT_MAX_ITERATIONS, DEFAULT_MAX_REPEATS, PromptSource, Todo};
use crate::state::base::BaseState;
use crate::state::context::{AgentContext, BaseContext};
use crate::tool::Tool;
use crate::tool::catalogue::{Toolsets, toolset_of};
use crate::tool::errors::ToolErrors;
use crate::tool::toolset::Toolset;
use hier_core::QuestionType;
use hier_core::channel::ChannelSpec;
use hier_core::state::{Contains, State, Values};

#[doc(hidden)]
pub use parts::agent;
#[doc(hidden)]
pub use probe::{IsTextFree, MayHaveText, answered, probe};
#[doc(hidden)]
pub use trust::untrusted_input;

/// A builder of agents at run time. The builder has the same options as `Agent { … }`, `ReactGraph { … }` and
/// `TodoGraph { … }` in `graph!`. For mistakes that the macro reports at compile time, [`compile`](Self::compile)
/// returns an error.
///
/// ```
/// use hier_agents::{AgentBuilder, AgentEnd};
/// use hier_testkit::ScriptedModel;
/// use hier_agents::prelude::*;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> hier_core::Result<()> {
/// let desk = AgentBuilder::<BaseState>::new("desk").system("You answer customers.").compile()?;
/// let context = BaseContext::new(ScriptedModel::new([Message::assistant("We open at nine.")]));
/// let out = desk.invoke(Message::user("When do you open?")).context(context).await?;
/// assert_eq!(out.ending(), Some(&AgentEnd::Text));
/// assert_eq!(out.state().current_agent_report, "We open at nine.");
/// # Ok(())
/// # }
/// ```
#[must_use = "a builder does nothing until it is compiled"]
pub struct AgentBuilder<S: Values, C = BaseContext> {
    agent: AgentDef<S, C>,
    description: String,
    subagents: Vec<Subagent<S, C>>,
    front: Vec<Subagent<S, C>>,
    back: Vec<Subagent<S, C>>,
    channels: Vec<ChannelSpec>,
    initial: Arc<dyn Fn() -> S + Send + Sync>,
    reports: Option<bool>,
    declared: TrustDeclarations,
    asked: Vec<QuestionType>,
    mistakes: Vec<String>,
}

impl<S: State + Contains<BaseState>, C: AsRef<BaseContext> + Send + Sync + 'static> AgentBuilder<S, C> {
    /// Creates a builder of an `Agent`, which ends when its model replies without a tool call. With a typed
    /// [`answer`](Self::answer), the agent ends when the model gives a value of that type.
    pub fn new(name: impl Into<Arc<str>>) -> Self {
        Self::typed(AgentKind::Agent, name)
    }

    /// Creates a builder of a `ReactGraph`, which asks its model until the model calls `report_to_supervisor` or
    /// `finish_task`.
    pub fn react(name: impl Into<Arc<str>>) -> Self {
        Self::typed(AgentKind::React, name)
    }

    /// Creates a builder of a `TodoGraph`: a `ReactGraph` that may report only when its TODO list is complete.
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
    pub(crate) fn over(
        kind: AgentKind,
        name: impl Into<Arc<str>>,
        channels: Vec<ChannelSpec>,
        initial: Arc<dyn Fn() -> S + Send + Sync>,
    ) -> Self {
        let system = if kind == AgentKind::Agent { "" } else { prompts::DEFAULT_SYSTEM };
        let todo = (kind == AgentKind::Todo).then(|| Todo { check: None, refusal: prompts::DEFAULT_TODO.into() });
        let agent = AgentDef {
            kind,
            name: name.into(),
            model: None,
            options: ModelOptions::default(),
            system: PromptSource::Text(system.into()),
            reasoning: PromptSource::Text(prompts::DEFAULT_REASONING.into()),
            tools: Vec::new(),
            toolsets: Toolsets(Vec::new()),
            search: None,
            subagents: Vec::new(),
            background: Arc::default(),
            max_iterations: DEFAULT_MAX_ITERATIONS,
            // The kinds that report default to no limit, as in LangGraph.
            max_repeats: if kind == AgentKind::Agent { DEFAULT_MAX_REPEATS } else { u32::MAX },
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
        let (description, reports, asked, mistakes) = (String::new(), None, Vec::new(), Vec::new());
        let declared = TrustDeclarations::default();
        Self { agent, description, subagents, front, back, channels, initial, reports, declared, asked, mistakes }
    }
}

impl<S: Values, C: Send + Sync + 'static> AgentBuilder<S, C> {
    /// Sets the description that the supervisor's model receives.
    pub fn description(mut self, text: impl Into<String>) -> Self {
        self.description = text.into();
        self
    }

    /// Sets the function that selects the agent's model in the context. Defaults to [`BaseContext::model`].
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use hier_agents::{AgentBuilder, ChatModel};
    /// # use hier_agents::prelude::*;
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

    /// Sets the options of model requests. By default, the options of the provider apply.
    pub fn options(mut self, options: ModelOptions) -> Self {
        self.agent.options = options;
        self
    }

    /// Sets the number of unusable replies in a turn after which an `Agent` fails. A reply is unusable if it is empty
    /// or its typed answer is invalid. Must be at least 1. Defaults to 3.
    pub fn attempts(mut self, attempts: u32) -> Self {
        self.agent.attempts = attempts;
        self
    }

    /// Adds a [layer](crate::layer) around model and tool calls. Calls pass through the layers in the order in which
    /// the layers were added.
    ///
    /// ```
    /// # use hier_agents::AgentBuilder;
    /// # use hier_agents::layer::Emails;
    /// # use hier_agents::prelude::*;
    /// # use hier_agents::layer::{Limit, Redact};
    /// let agent = AgentBuilder::<BaseState>::new("support").layer(Limit::new().model_calls(50)).layer(Redact::new(Emails));
    /// # let _ = agent;
    /// ```
    pub fn layer(mut self, layer: impl Layer<S, C>) -> Self {
        self.mistakes.extend(layer.mistake());
        let listed = ListedLayer::new(&self.agent.name, self.agent.layers.len(), Arc::new(layer));
        self.agent.layers.push(listed);
        self
    }

    /// Adds a tool. For a `#[tool]` function, pass its [`TOOL`](crate::NamedTool::TOOL).
    ///
    /// ```
    /// # use hier_agents::AgentBuilder;
    /// # use hier_agents::prelude::*;
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

    /// Adds a tool in an `Arc`, which several agents can share.
    pub fn shared_tool(mut self, tool: Arc<dyn Tool<S, C>>) -> Self {
        self.agent.tools.push(tool);
        self
    }

    /// Adds the tools of the [`Toolset`] that `choose` selects in the context: `.toolset(|desk| &desk.crm)`.
    pub fn toolset<T: Toolset>(mut self, choose: impl for<'a> Fn(&'a C) -> &'a T + Send + Sync + 'static) -> Self {
        self.agent.toolsets.0.push(toolset_of(choose));
        self
    }

    /// Limits the number of model requests per turn. A turn begins with each new input or, in a subagent, with each
    /// call. The limit must be at least 1. Defaults to [`DEFAULT_MAX_ITERATIONS`](super::DEFAULT_MAX_ITERATIONS).
    pub fn max_iterations(mut self, iterations: u32) -> Self {
        self.agent.max_iterations = iterations;
        self
    }

    /// Limits the number of consecutive equal tool calls with the same result. Calls are equal if they have the same
    /// tool and arguments. The limit must be at least 1.
    ///
    /// At the limit, the agent rejects the next equal call and warns the model. If the model's next reply contains only
    /// calls that the agent has just rejected, the agent ends with [`AgentLimit::Repeats`](super::AgentLimit::Repeats).
    ///
    /// Defaults to [`DEFAULT_MAX_REPEATS`](super::DEFAULT_MAX_REPEATS) for an `Agent`, and to no limit for a
    /// `ReactGraph` or `TodoGraph`. Set a higher limit for an `Agent` that polls.
    pub fn max_repeats(mut self, repeats: u32) -> Self {
        self.agent.max_repeats = repeats;
        self
    }

    pub(crate) fn with_mistake(mut self, mistake: String) -> Self {
        self.mistakes.push(mistake);
        self
    }

    /// Sets whether one reply of the model may contain several subagent calls. The subagents run in parallel, each on a
    /// copy of the state, and reducers merge their results.
    ///
    /// Defaults to false. A subagent call must then be the only call in a reply. Otherwise, the agent makes none of the
    /// calls of this reply and asks the model again. Calls of background subagents may always accompany other calls.
    pub fn parallel_subagents(mut self, parallel: bool) -> Self {
        self.agent.parallel = parallel;
        self
    }

    /// Decides what happens if a tool fails. Defaults to [`ToolErrors::Raise`], with which the run fails.
    pub fn tool_errors(mut self, errors: ToolErrors) -> Self {
        self.agent.errors = errors;
        self
    }

    /// Adds a graph that the model can call as a tool.
    pub fn subagent(mut self, subagent: Subagent<S, C>) -> Self {
        self.subagents.push(subagent);
        self
    }

    /// Adds a graph that runs before the first model request of a turn. If you add several such graphs, they run in the
    /// order in which you add them.
    pub fn front(mut self, stage: Subagent<S, C>) -> Self {
        self.front.push(stage);
        self
    }

    /// Adds a graph that runs after the agent's report. If you add several such graphs, they run in the order in which
    /// you add them.
    pub fn back(mut self, stage: Subagent<S, C>) -> Self {
        self.back.push(stage);
        self
    }
}

impl<S: Values, C> fmt::Debug for AgentBuilder<S, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AgentBuilder").field("name", &self.agent.name).finish_non_exhaustive()
    }
}
