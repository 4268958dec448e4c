//! Agents that ask a model what to do: the graph that each of them is.
//!
//! An agent is an ordinary graph of this engine, whose nodes are made here from what the agent is told to be. The shape
//! of the graph is [`hier_spec::agent`].

mod answer;
mod ask;
mod converse;
mod ending;
pub(super) mod entry;
mod reasoning;
mod repeats;
mod route;
mod system;
mod tool;
mod toolbox;

use std::collections::HashMap;
use std::sync::Arc;

#[doc(hidden)]
pub use answer::AnswerChannel;
pub(super) use answer::{Answer, DEFAULT_ATTEMPTS};
pub(super) use tool::call_of;
#[doc(hidden)]
pub use toolbox::ArgsSpec;
pub(crate) use toolbox::Card;

use futures_core::future::BoxFuture;
use hier_spec::agent::AgentKind;

use crate::layer::{Above, Heirs, Listed};
use crate::model::{ChatModel, ToolSpec};
use crate::options::ModelOptions;
use crate::state::base::BaseState;
use crate::state::budget::Budget;
use crate::state::context::BaseContext;
use crate::tool::Tool;
use crate::tool::errors::ToolErrors;
use crate::toolsets::{Catalogue, Toolsets};
use crate::words;
use hier_checkpoint::message::ToolCall;
use hier_core::NodeError;
use hier_core::Run;
use hier_core::graph::{Command, NodeDef, NodeResult, Output, Task};
use hier_core::internals::body;
use hier_core::state::{Contains, Update, Values, Writes};

/// How often an agent may ask its model, unless it says itself.
pub const DEFAULT_MAX_ITERATIONS: u32 = 50;

/// The default number of times in a row that a call of an `Agent` may return the same result.
pub const DEFAULT_MAX_REPEATS: u32 = 3;

/// What an agent says, as a constant or made of its state.
pub(crate) enum Prompt<S> {
    Text(Arc<str>),
    Made(Arc<dyn Fn(&S) -> String + Send + Sync>),
}

impl<S> Prompt<S> {
    fn text(&self, state: &S) -> String {
        match self {
            Self::Text(text) => text.as_ref().to_owned(),
            Self::Made(make) => make(state),
        }
    }
}

/// What an agent says: a text, or a function of its state that makes one.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no text of an agent over `{S}`",
    label = "neither a text nor a function that makes one",
    note = "give a text, or an `fn(&{S}) -> String`"
)]
pub trait IntoPrompt<S, M> {
    #[doc(hidden)]
    fn into_prompt(self) -> PromptText<S>;
}

/// A text of an agent.
#[doc(hidden)]
pub struct PromptText<S>(pub(crate) Prompt<S>);

/// Marks a text.
#[doc(hidden)]
#[derive(Debug)]
pub struct Constant;
/// Marks a function that makes a text.
#[doc(hidden)]
#[derive(Debug)]
pub struct Made;

impl<S, T: Into<Arc<str>>> IntoPrompt<S, Constant> for T {
    fn into_prompt(self) -> PromptText<S> {
        PromptText(Prompt::Text(self.into()))
    }
}

impl<S, F, T> IntoPrompt<S, Made> for F
where
    F: Fn(&S) -> T + Send + Sync + 'static,
    T: Into<String>,
{
    fn into_prompt(self) -> PromptText<S> {
        PromptText(Prompt::Made(Arc::new(move |state| self(state).into())))
    }
}

/// Whether an agent may report.
pub(crate) type Check<S> = Arc<dyn Fn(&S) -> bool + Send + Sync>;

/// The list of things to do, of an agent that has one.
pub(crate) struct Todo<S> {
    /// Whether it may report; none: once there is a list, and all of it is done.
    pub(crate) check: Option<Check<S>>,
    /// What it is told otherwise.
    pub(crate) refusal: Arc<str>,
}

/// Writes a report somewhere else.
pub(crate) type ReportInto<S> = Arc<dyn Fn(String) -> Writes<S> + Send + Sync>;

/// Chooses the model of an agent.
pub(crate) type Choose<C> = Arc<dyn for<'a> Fn(&'a C) -> &'a (dyn ChatModel + 'static) + Send + Sync>;

/// What an agent is.
pub(crate) struct Agent<S: Values, C> {
    pub(crate) kind: AgentKind,
    pub(crate) name: Arc<str>,
    /// The model that it asks; none: that of the context.
    pub(crate) model: Option<Choose<C>>,
    pub(crate) options: ModelOptions,
    pub(crate) system: Prompt<S>,
    pub(crate) reasoning: Prompt<S>,
    pub(crate) tools: Vec<Arc<dyn Tool<S, C>>>,
    /// Those that list their tools at run time.
    pub(crate) toolsets: Toolsets<C>,
    /// The subagents as its model sees them, in the order of their nodes.
    pub(crate) subagents: Vec<Card>,
    pub(crate) max_iterations: u32,
    /// Number of times in a row that a call may return the same result.
    pub(crate) max_repeats: u32,
    pub(crate) reports: bool,
    /// Where else the report is written.
    pub(crate) report_into: Option<ReportInto<S>>,
    pub(crate) todo: Option<Todo<S>>,
    /// The answer of a type that it ends with.
    pub(crate) answer: Option<Answer<S>>,
    /// How many answers of its model may be of no use.
    pub(crate) attempts: u32,
    /// The node that comes when it has ended, if there is one. Of an `Agent`.
    pub(crate) exit: Option<Arc<str>>,
    pub(crate) parallel: bool,
    pub(crate) errors: ToolErrors,
    /// What stands around its calls, the outermost first.
    pub(crate) layers: Vec<Listed<S, C>>,
    /// Whether agents below inherit some of them.
    pub(crate) passes_on: bool,
    /// What is called by which name.
    pub(crate) callees: HashMap<String, Callee>,
    /// What the model is told of all of them.
    pub(crate) specs: Arc<[ToolSpec]>,
    /// The same with the tool by which it ends: of one that is told to report, or to give its answer.
    pub(crate) ending_specs: Arc<[ToolSpec]>,
}

/// What a call calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Callee {
    /// A tool of the agent's own, by its place.
    Tool(usize),
    /// A subagent, by its place.
    Subagent(usize),
    /// One that every agent may have, or nothing.
    Other,
}

impl<S: Values + Contains<BaseState>, C> Agent<S, C> {
    /// Whether the agent has something to do before it may report.
    fn holds_back(&self, state: &S) -> bool {
        self.todo.as_ref().is_some_and(|todo| match &todo.check {
            Some(check) => !check(state),
            None => !state.part().todo_list.is_done(),
        })
    }

    fn max_iterations(&self, state: &S) -> u32 {
        let base = state.part();
        let task = base.current_agent_args.get("task_iterations").and_then(serde_json::Value::as_u64);
        let task = task.filter(|task| *task > 0).map(|task| u32::try_from(task).unwrap_or(u32::MAX));
        let frame = base.subagent_stack.top().filter(|frame| frame.agent_name() == &*self.name);
        let policy = frame.and_then(crate::state::frame::Frame::max_iterations);
        [task, policy].into_iter().flatten().fold(self.max_iterations, u32::min)
    }
}

impl<S: Values, C> Agent<S, C> {
    /// Whether it ends as soon as its model answers.
    pub(crate) fn converses(&self) -> bool {
        self.kind == AgentKind::Agent
    }

    /// The layers that its calls in this run go through: those that it inherits, and its own.
    fn layers<'a>(&'a self, run: &'a Run<C>) -> (Above<'a>, &'a [Listed<S, C>]) {
        (Heirs::of(run, self.passes_on), &self.layers)
    }

    /// What the toolsets have now. An error if a name is that of something else the agent has.
    async fn catalogue(&self, context: &C) -> Result<Catalogue<C>, NodeError>
    where
        C: Send + Sync + 'static,
    {
        let own = self.callees.iter().map(|(name, callee)| match callee {
            Callee::Subagent(_) => (&**name, format!("the subagent `{name}`")),
            _ => (&**name, format!("the agent's own tool `{name}`")),
        });
        let built_in = self.kind.reserved_tools().iter().map(|name| (*name, format!("the built-in tool `{name}`")));
        self.toolsets.list(context, built_in.chain(own)).await
    }

    /// What is called by this name.
    fn callee(&self, name: &str) -> Callee {
        self.callees.get(name).copied().unwrap_or(Callee::Other)
    }

    /// What makes this call: a subagent whose arguments do not fit is not called, the tool node says why.
    fn callee_for(&self, call: &ToolCall) -> Callee {
        match self.callee(&call.name) {
            Callee::Subagent(number) if self.subagents[number].mistake(call).is_some() => Callee::Other,
            callee => callee,
        }
    }
}

impl<S, C> Agent<S, C>
where
    S: Values + Contains<BaseState>,
    C: AsRef<BaseContext> + Send + Sync + 'static,
{
    /// The code of the nodes that an agent of this kind has, in the order of [`AgentKind::nodes`].
    pub(crate) fn nodes(self: &Arc<Self>) -> Vec<NodeDef<S, C>> {
        if self.converses() {
            return vec![
                self.asking(|agent, task| Box::pin(async move { converse::run(&agent, task).await.map(Output::from) })),
                self.asking(|agent, task| Box::pin(async move { tool::run(&agent, task).await.map(Output::from) })),
            ];
        }
        let mut nodes = vec![
            self.at_once(system::run),
            self.asking(|agent, task| Box::pin(async move { reasoning::run(&agent, task).await.map(Output::from) })),
            self.asking(|agent, task| Box::pin(async move { tool::run(&agent, task).await.map(Output::from) })),
            self.at_once(ending::report),
            self.at_once(|_, _| Command::new()),
            Self::refusal(words::REPORT_ALONE),
            Self::refusal(words::PARALLEL),
            Self::refusal(words::REPORT_NOW),
            self.at_once(ending::forced),
        ];
        nodes.extend(self.todo.as_ref().map(|todo| Self::refusal(&todo.refusal)));
        nodes
    }

    /// A node that waits for somebody.
    fn asking(self: &Arc<Self>, code: Asking<S, C>) -> NodeDef<S, C> {
        let agent = self.clone();
        let code = body(move |task: &Task<S, C>| {
            count(task);
            code(agent.clone(), task)
        });
        NodeDef::from_body(code, None)
    }

    /// A node that is done at once.
    fn at_once(self: &Arc<Self>, code: fn(&Self, &Task<S, C>) -> Command<S>) -> NodeDef<S, C> {
        let agent = self.clone();
        let code = body(move |task: &Task<S, C>| {
            count(task);
            Box::pin(std::future::ready(Ok(Output::from(code(&agent, task)))))
        });
        NodeDef::from_body(code, None)
    }

    /// A node that answers every open call with an error.
    fn refusal(reason: &str) -> NodeDef<S, C> {
        let reason = reason.to_owned();
        let code = body(move |task: &Task<S, C>| {
            count(task);
            let command = ending::refuse(task.state(), &reason);
            Box::pin(std::future::ready(Ok(Output::from(command))))
        });
        NodeDef::from_body(code, None)
    }
}

/// The code of a node that waits for somebody.
type Asking<S, C> = for<'a> fn(Arc<Agent<S, C>>, &'a Task<S, C>) -> BoxFuture<'a, NodeResult<S>>;

/// Counts a node.
fn count<S: Values + Contains<BaseState>, C: AsRef<BaseContext>>(task: &Task<S, C>) {
    if let Some(budget) = budget(task) {
        budget.step();
    }
}

/// What the agent may spend, if that is limited.
fn budget<S: Values + Contains<BaseState>, C: AsRef<BaseContext>>(task: &Task<S, C>) -> Option<&Arc<Budget>> {
    let whole = task.run().context().as_ref().budget.as_ref()?;
    Some(task.state().part().subagent_stack.budget(whole))
}

/// A command that makes these writes.
fn writing<S: Values>(writes: impl IntoIterator<Item = S::Write>) -> Command<S> {
    Command::update(S::Update::from_writes(writes.into_iter().collect::<Writes<S>>()))
}
