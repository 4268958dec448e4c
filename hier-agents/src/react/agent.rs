use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use hier_spec::agent::AgentKind;

use super::answer::TypedAnswer;
use super::background_set::BackgroundSet;
use super::subagent_tool::SubagentTool;
use crate::layer::{CallLayers, InheritedLayers, ListedLayer, redactor};
use crate::model::{ChooseModel, ToolSpec};
use crate::options::ModelOptions;
use crate::redaction::RedactorOf;
use crate::state::base::BaseState;
use crate::state::budget::Budget;
use crate::state::context::BaseContext;
use crate::state::frame::SubagentFrame;
use crate::tool::Tool;
use crate::tool::catalogue::{ToolCatalogue, Toolsets};
use crate::tool::errors::ToolErrors;
use crate::tool::search::ToolSearch;
use hier_checkpoint::message::ToolCall;
use hier_core::NodeError;
use hier_core::Run;
use hier_core::graph::{Command, Task};
use hier_core::state::{Contains, Update, Values, Writes};

/// The default maximum number of model requests of an agent per turn.
pub const DEFAULT_MAX_ITERATIONS: u32 = 50;

/// The default of [`AgentBuilder::max_repeats`](crate::AgentBuilder::max_repeats) for an `Agent`.
pub const DEFAULT_MAX_REPEATS: u32 = 3;

/// A prompt of an agent: a constant, or a function of the agent's state.
#[doc(hidden)]
pub enum PromptSource<S> {
    Text(Arc<str>),
    Made(Arc<dyn Fn(&S) -> String + Send + Sync>),
}

impl<S> PromptSource<S> {
    pub(super) fn text(&self, state: &S) -> String {
        match self {
            Self::Text(text) => text.as_ref().to_owned(),
            Self::Made(make) => make(state),
        }
    }
}

/// A prompt of an agent: a string, or a function of the state that returns a string.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a string for an agent over `{S}`",
    label = "neither a string nor a function that returns one",
    note = "pass a string, or an `fn(&{S}) -> String`"
)]
pub trait IntoPrompt<S, M> {
    #[doc(hidden)]
    fn into_prompt(self) -> PromptSource<S>;
}

/// The parameter `M` of [`IntoPrompt`] for a constant.
#[doc(hidden)]
#[derive(Debug)]
pub struct Constant;
/// The parameter `M` of [`IntoPrompt`] for a function.
#[doc(hidden)]
#[derive(Debug)]
pub struct Made;

impl<S, T: Into<Arc<str>>> IntoPrompt<S, Constant> for T {
    fn into_prompt(self) -> PromptSource<S> {
        PromptSource::Text(self.into())
    }
}

impl<S, F, T> IntoPrompt<S, Made> for F
where
    F: Fn(&S) -> T + Send + Sync + 'static,
    T: Into<String>,
{
    fn into_prompt(self) -> PromptSource<S> {
        PromptSource::Made(Arc::new(move |state| self(state).into()))
    }
}

/// Returns true if an agent may report.
pub(crate) type Check<S> = Arc<dyn Fn(&S) -> bool + Send + Sync>;

pub(crate) struct Todo<S> {
    /// The condition for the report. Defaults to a list that is not empty and complete.
    pub(crate) check: Option<Check<S>>,
    /// The answer to a report that comes too early.
    pub(crate) refusal: Arc<str>,
}

pub(crate) type ReportInto<S> = Arc<dyn Fn(String) -> Writes<S> + Send + Sync>;

pub(crate) struct AgentDef<S: Values, C> {
    pub(crate) kind: AgentKind,
    pub(crate) name: Arc<str>,
    /// Defaults to the model of the context.
    pub(crate) model: Option<ChooseModel<C>>,
    pub(crate) options: ModelOptions,
    pub(crate) system: PromptSource<S>,
    pub(crate) reasoning: PromptSource<S>,
    pub(crate) tools: Vec<Arc<dyn Tool<S, C>>>,
    pub(crate) toolsets: Toolsets<C>,
    /// If set, the model finds tools by search when there are many.
    pub(crate) search: Option<ToolSearch>,
    /// The subagents in the order of their nodes.
    pub(crate) subagents: Vec<SubagentTool>,
    pub(crate) background: Arc<BackgroundSet<S, C>>,
    pub(crate) max_iterations: u32,
    pub(crate) max_repeats: u32,
    pub(crate) reports: bool,
    /// Writes the report to another channel.
    pub(crate) report_into: Option<ReportInto<S>>,
    pub(crate) todo: Option<Todo<S>>,
    pub(crate) answer: Option<TypedAnswer<S>>,
    /// The number of unusable replies before the agent fails.
    pub(crate) attempts: u32,
    /// `Agent` only: the first back stage.
    pub(crate) exit: Option<Arc<str>>,
    pub(crate) parallel: bool,
    pub(crate) errors: ToolErrors,
    /// The layers around the agent's calls, the outermost layer first.
    pub(crate) layers: Vec<ListedLayer<S, C>>,
    /// True if the agents below inherit some of the layers.
    pub(crate) passes_on: bool,
    pub(crate) callees: HashMap<String, Callee>,
    pub(crate) specs: Arc<[ToolSpec]>,
    /// The specs for the last request: `specs`, and the tool that ends the agent.
    pub(crate) ending_specs: Arc<[ToolSpec]>,
}

/// The target of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Callee {
    /// A tool of the agent, by its index.
    Tool(usize),
    /// A subagent, by its index.
    Subagent(usize),
    /// A built-in tool, a tool of a toolset, or an unknown name.
    Other,
}

impl<S: Values + Contains<BaseState>, C> AgentDef<S, C> {
    /// Returns true if the agent must complete its TODO list before it may report.
    pub(super) fn holds_back(&self, state: &S) -> bool {
        self.todo.as_ref().is_some_and(|todo| match &todo.check {
            Some(check) => !check(state),
            None => !state.part().todo_list.is_done(),
        })
    }

    pub(super) fn max_iterations(&self, state: &S) -> u32 {
        let base = state.part();
        let task = base.current_agent_args.get("task_iterations").and_then(serde_json::Value::as_u64);
        let task = task.filter(|task| *task > 0).map(|task| u32::try_from(task).unwrap_or(u32::MAX));
        let frame = base.subagent_stack.top().filter(|frame| frame.agent_name() == &*self.name);
        let policy = frame.and_then(SubagentFrame::max_iterations);
        [task, policy].into_iter().flatten().fold(self.max_iterations, u32::min)
    }
}

impl<S: Values, C> AgentDef<S, C> {
    /// Returns true for an `Agent`, which ends as soon as its model answers.
    pub(crate) fn converses(&self) -> bool {
        self.kind == AgentKind::Agent
    }

    /// Returns the inherited layers and the agent's own.
    pub(super) fn layers<'a>(&'a self, run: &'a Run<C>) -> CallLayers<'a, S, C> {
        CallLayers { outer: InheritedLayers::around(run, self.passes_on), own: &self.layers }
    }

    /// Returns the function that finds the redacting layers of the agent in a run.
    pub(crate) fn redactor(&self) -> RedactorOf<C>
    where
        C: Send + Sync + 'static,
    {
        let (own, passes_on) = (self.layers.clone(), self.passes_on);
        Arc::new(move |run: &Run<C>| redactor(CallLayers { outer: InheritedLayers::around(run, passes_on), own: &own }))
    }

    /// Lists the tools of the toolsets. A name that the agent already uses is an error.
    pub(super) async fn catalogue(&self, context: &C) -> Result<ToolCatalogue<C>, NodeError>
    where
        C: Send + Sync + 'static,
    {
        let search = self.search.is_some().then_some(hier_spec::agent::SEARCH_TOOLS);
        let background = if self.background.0.is_empty() { &[][..] } else { &hier_spec::agent::BACKGROUND_TOOLS };
        let built_in = [self.kind.reserved_tools(), search.as_slice(), background];
        self.toolsets.list(context, described_names(&built_in, &self.callees)).await
    }

    /// Returns true if this call of a subagent must be the only call of its reply.
    pub(super) fn runs_alone(&self, call: &ToolCall) -> bool {
        match self.callee(&call.name) {
            Callee::Subagent(number) => !self.parallel && !self.subagents[number].is_background,
            _ => false,
        }
    }

    pub(super) fn callee(&self, name: &str) -> Callee {
        self.callees.get(name).copied().unwrap_or(Callee::Other)
    }

    /// Returns the target of a call. The tool node receives a call of a subagent with invalid arguments, and rejects
    /// it.
    pub(super) fn callee_for(&self, call: &ToolCall) -> Callee {
        match self.callee(&call.name) {
            Callee::Subagent(number) if self.subagents[number].mistake(call).is_some() => Callee::Other,
            callee => callee,
        }
    }
}

/// Returns the agent's share of the budget, if there is one.
pub(super) fn budget<S: Values + Contains<BaseState>, C: AsRef<BaseContext>>(
    task: &Task<S, C>,
) -> Option<&Arc<Budget>> {
    let whole = task.run().context().as_ref().budget.as_ref()?;
    Some(task.state().part().subagent_stack.budget(whole))
}

pub(super) fn writing<S: Values>(writes: impl IntoIterator<Item = S::Write>) -> Command<S> {
    Command::update(S::Update::from_writes(writes.into_iter().collect::<Writes<S>>()))
}

/// Maps the names of an agent's tools and subagents to descriptions.
fn described_names(built_in: &[&[&str]], callees: &HashMap<String, Callee>) -> BTreeMap<String, String> {
    let mut names = BTreeMap::new();
    for name in built_in.iter().copied().flatten() {
        names.insert((*name).to_owned(), format!("the built-in tool `{name}`"));
    }
    for (name, callee) in callees {
        let what = if matches!(callee, Callee::Subagent(_)) { "subagent" } else { "agent's own tool" };
        names.insert(name.clone(), format!("the {what} `{name}`"));
    }
    names
}
