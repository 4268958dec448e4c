//! A node that makes the open calls of the model: `act = tools![lookup, refund]`.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashSet};
use std::fmt;
use std::sync::Arc;

use hier_spec::trust::{GraphTrust, ToolTrust, TrustSource};
use hier_spec::{ArmSpec, ArmTarget, EdgeSpec, GraphSpec, NodeSpec, Source, Target};
use serde_json::Value;

use crate::call::tool::ToolCaller;
use crate::layer::{CallLayers, InheritedLayers, StateProjection};
use crate::operator::answer_left_calls;
use crate::prompts;
use crate::state::base::BaseState;
use crate::tool::approval::{ApprovalMode, ApprovalRule};
use crate::tool::catalogue::{ToolsetOf, Toolsets, toolset_of};
use crate::tool::errors::ToolErrors;
use crate::tool::requested::AnsweredTool;
use crate::tool::toolset::Toolset;
use crate::tool::{NamedTool, Tool};
use hier_checkpoint::message::ToolCall;
use hier_core::Run;
use hier_core::graph::Output;
use hier_core::graph::{Command, CompiledGraph, Hooks, NodeDef, Parts, Routing, Task};
use hier_core::internals::{SpecRef, body};
use hier_core::state::{Conversation, State, Writes};
use hier_core::{BuildError, NodeError};

/// A node that makes the tool calls of the model's last reply. The node skips calls that already have a result. The
/// calls run in parallel. Each call is a task, and its result is stored when the call ends.
///
/// In `graph!`, write `tools![…]`, as in this custom agent:
///
/// ```
/// use hier_agents::prelude::*;
/// use hier_core::state::wants_tools;
/// use hier_testkit::ScriptedModel;
/// use serde_json::json;
///
/// #[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
/// struct Chat {
///     #[reducer(messages)]
///     messages: Messages,
/// }
///
/// graph! {
///     Support<Chat, BaseContext> = Graph {
///         nodes: [think, act = tools![lookup]],
///         edges: [START >> think >> if wants_tools { act } else { END }, act >> think],
///     }
/// }
///
/// async fn think(state: &Chat, run: &Run<BaseContext>) -> hier_core::Result<ChatUpdate> {
///     let answer = run.model()?.ask(&state.messages).tools(tools![lookup]).await?;
///     Ok(Chat::update().messages(answer.message))
/// }
///
/// /// Looks an order up.
/// #[tool]
/// async fn lookup(order: u32) -> String {
///     format!("order {order} is on its way")
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> hier_core::Result<()> {
/// let model = ScriptedModel::new([Message::call("lookup", json!({"order": 7})), Message::assistant("It is on its way.")]);
/// let asked = Chat::update().messages(Message::user("Where is my order 7?"));
/// let out = Support::compile().invoke(asked).context(BaseContext::new(model)).await?;
/// let said: Vec<String> = out.state().messages.iter().map(Message::text).collect();
/// assert_eq!(said, ["Where is my order 7?", "", "order 7 is on its way", "It is on its way."]);
/// # Ok(())
/// # }
/// ```
///
/// With a builder, add the node as a subgraph: `graph.subgraph("act", &ToolNode::<Chat,
/// Desk>::new("act").tool(lookup::TOOL).compile()?)`.
///
/// * The node adds a result for each call to the [`Conversation`] of the state. If the arguments are invalid or the
///   tool is unknown, the result describes the error.
/// * If several calls need approval, the run asks for all approvals together
///   ([`ApprovalRequest`](super::ApprovalRequest)).
/// * If a tool fails, the run fails. With [`ToolErrors::Tell`], the model receives the error instead.
/// * A tool may return an update or a [`Command`]. If a tool returns a command with a `goto`, all other calls of the
///   reply must already have a result. Otherwise the run fails.
/// * The node is a graph with one inner node for each tool. Events, errors and spans therefore name the tool.
#[must_use = "a builder does nothing until it is compiled"]
pub struct ToolNode<S: State, C = ()> {
    name: String,
    tools: Vec<Arc<dyn Tool<S, C>>>,
    toolsets: Vec<ToolsetOf<C>>,
    errors: ToolErrors,
}

impl<S: State, C> fmt::Debug for ToolNode<S, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ToolNode").field("name", &self.name).finish_non_exhaustive()
    }
}

impl<S: State + Conversation, C: Send + Sync + 'static> ToolNode<S, C> {
    /// Creates a node without tools.
    pub fn new(name: impl Into<String>) -> Self {
        Self { name: name.into(), tools: Vec::new(), toolsets: Vec::new(), errors: ToolErrors::default() }
    }

    /// Adds a tool.
    pub fn tool(mut self, tool: impl Tool<S, C>) -> Self {
        self.tools.push(Arc::new(tool));
        self
    }

    /// Adds the tools of the [`Toolset`] that `choose` selects in the context. If the model calls a tool that you did
    /// not add with [`tool`](Self::tool), the node calls [`Toolset::tools`] to find the tool.
    pub fn toolset<T: Toolset>(mut self, choose: impl for<'a> Fn(&'a C) -> &'a T + Send + Sync + 'static) -> Self {
        self.toolsets.push(toolset_of(choose));
        self
    }

    /// Decides what happens if a tool fails. Defaults to [`ToolErrors::Raise`], with which the run fails.
    pub fn errors(self, errors: ToolErrors) -> Self {
        Self { errors, ..self }
    }

    /// Compiles the node, which is a graph. Add this graph to another graph with
    /// [`GraphBuilder::subgraph`](hier_core::graph::GraphBuilder::subgraph).
    ///
    /// # Errors
    ///
    /// Fails if two tools have the same name.
    pub fn compile(self) -> Result<CompiledGraph<S, C>, BuildError> {
        let names: Vec<String> = self.tools.iter().map(|tool| tool.spec().name).collect();
        let mut known = HashSet::new();
        let doubled = names.iter().filter(|name| !known.insert(*name));
        let mistakes: Vec<String> = doubled.map(|name| format!("there are two tools `{name}`: rename one")).collect();
        if !mistakes.is_empty() {
            return Err(BuildError { graph: self.name, mistakes });
        }
        let trust = self.trust(&names);
        let parts = tool_parts(&self.name, &self.name, self.tools, self.toolsets, self.errors).trusted(trust);
        Ok(CompiledGraph::new(parts, Arc::new(S::default), S::CHANNELS.iter().cloned().collect()))
    }

    /// Returns the labels of the tools. A command of a tool for the outer graph carries them.
    fn trust(&self, names: &[String]) -> GraphTrust {
        let tools = self.tools.iter().zip(names).map(|(tool, name)| {
            TrustSource::tool(name, ToolTrust::new(tool.labels(), tool.approval() != ApprovalMode::Never))
        });
        let sets = self.toolsets.iter().map(|set| TrustSource::tool("a toolset", set.trust()));
        GraphTrust::of(&tools.chain(sets).collect::<Vec<_>>(), false, false)
    }
}

/// The node for calls of unknown tools. The space in its name keeps it distinct from all tools.
const UNKNOWN: &str = "unknown tool";

/// The node for calls of tools of toolsets.
const LISTED: &str = "listed tool";

const CALLS: &str = "tool_calls";

fn spec(name: String, tools: &[String], other: &str) -> GraphSpec {
    let names: Vec<String> = tools.iter().cloned().chain([other.to_owned()]).collect();
    let nodes = names.iter().map(|name| NodeSpec { name: name.clone().into(), ..NodeSpec::new("") });
    let arms = names.iter().enumerate();
    let arms = arms.map(|(node, name)| ArmSpec { label: name.clone().into(), to: vec![ArmTarget::Send(node)].into() });
    let calls = EdgeSpec::Route { from: Source::Start, label: CALLS.into(), arms: arms.collect() };
    let ends = (0..names.len()).map(|node| EdgeSpec::Plain { from: Source::Node(node), to: Target::End });
    GraphSpec {
        name: name.into(),
        doc: String::new().into(),
        nodes: nodes.collect(),
        edges: std::iter::once(calls).chain(ends).collect(),
        interrupt_before: Vec::new().into(),
        interrupt_after: Vec::new().into(),
    }
}

/// Creates the parts of the node's graph. Code that `graph!` generates calls this function.
#[doc(hidden)]
pub fn tool_parts<S, C>(
    name: &str,
    agent: &str,
    tools: Vec<Arc<dyn Tool<S, C>>>,
    toolsets: Vec<ToolsetOf<C>>,
    errors: ToolErrors,
) -> Parts<S, C>
where
    S: State + Conversation,
    C: Send + Sync + 'static,
{
    let names: Arc<[String]> = tools.iter().map(|tool| tool.spec().name).collect();
    let other = if toolsets.is_empty() { UNKNOWN } else { LISTED };
    let spec = SpecRef::Owned(Arc::new(spec(name.to_owned(), &names, other)));
    let agent: Arc<str> = agent.into();
    let mut nodes: Vec<NodeDef<S, C>> = tools.into_iter().map(|tool| call_node(tool, agent.clone(), errors)).collect();
    nodes.push(if toolsets.is_empty() {
        unknown_tool_node(names.clone())
    } else {
        let toolsets = Toolsets(toolsets);
        toolset_node(toolsets, names.clone(), agent, errors)
    });
    let route = move |state: &S, routing: &mut Routing| send_calls(state, &names, routing);
    Parts::made(spec, nodes, Hooks::made(Vec::new(), None, Arc::new(leave_calls))).part(Arc::new(route))
}

/// Adds a result to the input for each call that has no result when the input arrives.
fn leave_calls<S: Conversation>(state: &S, withdrawn: Option<&[Value]>, input: Writes<S>) -> Writes<S> {
    match withdrawn {
        Some(withdrawn) => answer_left_calls(state.conversation(), withdrawn, input, S::CHANNEL, S::said),
        None => input,
    }
}

/// Sends each open call of the model to the node of its tool.
fn send_calls<S: Conversation>(state: &S, names: &[String], routing: &mut Routing) -> Result<(), NodeError> {
    let calls = state.conversation().open_calls();
    if calls.is_empty() {
        return Err(NodeError::permanent(format!(
            "no tool call to execute, because `{}` has no open call: route to the tool node only if `wants_tools` returns true",
            S::CHANNEL
        )));
    }
    for call in calls {
        let node = names.iter().position(|name| *name == call.name).unwrap_or(names.len());
        routing.send(node, call.clone());
    }
    Ok(())
}

fn caller<'a, S: Conversation, C>(agent: &'a str, errors: ToolErrors, task: &'a Task<S, C>) -> ToolCaller<'a, S, C> {
    // Inherited layers see only the conversation, because the state is not an agent's.
    let base = |state: &S| Cow::Owned(BaseState { messages: state.conversation().clone(), ..BaseState::default() });
    let layers = CallLayers { outer: InheritedLayers::around(task.run(), false), own: &[] };
    let projection = StateProjection { base, lift: None };
    ToolCaller { agent, errors, channel: S::CHANNEL, write_messages: S::said, layers, projection }
}

fn call_node<S, C>(tool: Arc<dyn Tool<S, C>>, agent: Arc<str>, errors: ToolErrors) -> NodeDef<S, C>
where
    S: State + Conversation,
    C: Send + Sync + 'static,
{
    let code = body(move |task: &Task<S, C>| {
        let (tool, agent) = (tool.clone(), agent.clone());
        Box::pin(async move {
            let call: ToolCall = task.sent()?;
            let command = caller(&agent, errors, task).call_tool(&*tool, call, task).await?;
            to_parent(command, task.state()).map(Output::from)
        })
    });
    NodeDef::from_body(code, None)
}

/// Redirects a command with a target to the parent graph, which has the target nodes.
fn to_parent<S: State + Conversation>(command: Command<S>, state: &S) -> Result<Command<S>, NodeError> {
    if !command.has_targets() {
        return Ok(command);
    }
    if state.conversation().open_calls().len() == 1 {
        return Ok(command.parent());
    }
    Err(NodeError::permanent(
        "a tool returned a command with a target while other calls are open, and their results would be lost: use the \
         edges of the node, or let the model make one call at a time (`ModelOptions::parallel_calls`)",
    ))
}

/// Creates the node that makes the calls of toolset tools. The node refuses calls of unknown tools.
fn toolset_node<S, C>(toolsets: Toolsets<C>, names: Arc<[String]>, agent: Arc<str>, errors: ToolErrors) -> NodeDef<S, C>
where
    S: State + Conversation,
    C: Send + Sync + 'static,
{
    let toolsets = Arc::new(toolsets);
    let code = body(move |task: &Task<S, C>| {
        let (toolsets, names, agent) = (toolsets.clone(), names.clone(), agent.clone());
        Box::pin(async move {
            let (call, context) = (task.sent::<ToolCall>()?, task.run().context());
            let catalogue = toolsets.list(context, described_names(&names)).await?;
            let known = [&*names, &catalogue.names()].concat();
            let caller = caller(&agent, errors, task);
            let command = match catalogue.find(&call.name, None, context) {
                Some(tool) => caller.call_tool(&tool, call, task).await?,
                None if AnsweredTool::has_result(&call, task.run())? => {
                    caller.call_tool(&AnsweredTool { labels: toolsets.labels() }, call, task).await?
                }
                None => caller.refuse(&call, &prompts::unknown_tool(&call.name, &known)),
            };
            Ok(Output::from(command))
        })
    });
    NodeDef::from_body(code, None)
}

/// Maps the names of the node's own tools to descriptions.
fn described_names(names: &[String]) -> BTreeMap<String, String> {
    names.iter().map(|name| (name.clone(), format!("the node's own tool `{name}`"))).collect()
}

fn unknown_tool_node<S, C>(names: Arc<[String]>) -> NodeDef<S, C>
where
    S: State + Conversation,
    C: Send + Sync + 'static,
{
    let code = body(move |task: &Task<S, C>| {
        let refused = task.sent::<ToolCall>().map(|call| {
            let why = prompts::unknown_tool(&call.name, &names);
            Output::from(caller("", ToolErrors::Tell, task).refuse(&call, &why))
        });
        Box::pin(std::future::ready(refused))
    });
    NodeDef::from_body(code, None)
}

/// Returns the tool `T` for a node. Code that `graph!` generates calls this function, so that the compiler reports a
/// wrong type at the name of the tool.
#[doc(hidden)]
pub fn tool_of<S: State, C, T: NamedTool + Tool<S, C>>() -> Arc<dyn Tool<S, C>> {
    Arc::new(T::TOOL)
}

/// Returns the tool `T` for a node, with a rule that decides which calls need approval. Code that `graph!` generates
/// calls this function.
#[doc(hidden)]
pub fn ruled_tool_of<S: State, C: Send + Sync + 'static, T: NamedTool + Tool<S, C>>(
    rule: ApprovalRule<C>,
) -> Arc<dyn Tool<S, C>> {
    Arc::new(rule.of(T::TOOL))
}

/// Returns a handle to the same run with another context. `part` receives the context of `run` and returns the context
/// of the handle. Code that `#[tool]` generates calls this function.
#[doc(hidden)]
pub fn narrowed<C, D>(run: &Run<C>, part: impl FnOnce(&C) -> D) -> Run<D> {
    run.narrowed(part)
}
