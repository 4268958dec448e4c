//! A builder of graphs at run time, with the same checks as the macro.

use std::fmt;
use std::future::Future;
use std::sync::Arc;

use hier_spec::{ArmSpec, ArmTarget, EdgeSpec, NodeSpec, Target as SpecTarget};

use super::assemble::{self, Draft};
use super::compiled::CompiledGraph;
use super::edge_end::EdgeEnd;
use super::handler::IntoOutput;
use crate::channel::ChannelSpec;
use crate::engine::program::{Checkpoints, NodeDef, Payload, RouteFn, Routing, Task, body};
use crate::error::{BuildError, NodeError};
use crate::question::{DeclaredQuestion, QuestionType};
use crate::state::{DynState, Schema, SharesWith, State, Values};

/// A builder for a graph whose nodes and edges the program chooses at run time. The state is a derived state or a
/// [`DynState`].
///
/// The names of nodes are strings. [`START`](super::START) is the start of the graph, and [`END`](super::END) is its
/// end. [`compile`](Self::compile) makes the same checks of the graph's shape as `graph!`.
///
/// ```
/// use hier_core::prelude::*;
/// use hier_core::graph::{GraphBuilder, Task};
/// use hier_core::state::{DynState, Schema};
/// use hier_core::state::Builtin;
/// use serde_json::json;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> hier_core::Result<()> {
/// let schema = Schema::new().reduced("log", Builtin::Append);
/// let graph: GraphBuilder<DynState> = GraphBuilder::dynamic("hello", schema);
/// let graph = graph
///     .node("greet", async |task: Task<DynState>| task.state().update(json!({"log": ["hello"]})))
///     .edge(START, "greet")
///     .edge("greet", END)
///     .compile()?;
/// let out = graph.invoke(graph.update(json!({}))?).await?;
/// assert_eq!(out.state().get("log"), Some(&json!(["hello"])));
/// # Ok(())
/// # }
/// ```
#[must_use = "a builder does nothing until it is compiled"]
pub struct GraphBuilder<S: Values, C = ()> {
    pub(crate) draft: Draft<S, C>,
}

/// A type that [`GraphBuilder::node`] accepts as a node: an async function that takes a [`Task`], or a [`NodeDef`] from
/// [`NodeDef::task`].
pub trait IntoNode<S: Values, C> {
    /// Converts the value to a node.
    fn into_node(self) -> NodeDef<S, C>;
}

impl<S: Values, C> IntoNode<S, C> for NodeDef<S, C> {
    fn into_node(self) -> NodeDef<S, C> {
        self
    }
}

impl<S, C, F, Fut> IntoNode<S, C> for F
where
    S: Values,
    C: Send + Sync + 'static,
    F: Fn(Task<S, C>) -> Fut + Send + Sync + 'static,
    Fut: Future + Send + 'static,
    Fut::Output: IntoOutput<S>,
{
    fn into_node(self) -> NodeDef<S, C> {
        NodeDef::task(self)
    }
}

impl<S: Values, C: Send + Sync + 'static> NodeDef<S, C> {
    /// Creates a node from an async function that takes a [`Task`]. Set the options of the node with the other methods
    /// of [`NodeDef`].
    pub fn task<F, Fut>(function: F) -> Self
    where
        F: Fn(Task<S, C>) -> Fut + Send + Sync + 'static,
        Fut: Future + Send + 'static,
        Fut::Output: IntoOutput<S>,
    {
        let code = body(move |task: &Task<S, C>| {
            let future = function(task.clone());
            Box::pin(async move { future.await.into_output() })
        });
        Self::from_body(code, None)
    }

    /// Sets an error handler: a function that runs when the last attempt of the node has failed. The function reads the
    /// error from [`Task::failure`]. Its output replaces the node's output, and the engine follows no edges of the
    /// node.
    pub fn on_error<F, Fut>(mut self, function: F) -> Self
    where
        F: Fn(Task<S, C>) -> Fut + Send + Sync + 'static,
        Fut: Future + Send + 'static,
        Fut::Output: IntoOutput<S>,
    {
        self.on_error = Some(Self::task(function).body);
        self.bare = false;
        self
    }
}

impl<S: State, C: Send + Sync + 'static> GraphBuilder<S, C> {
    /// Creates a builder for a graph over a derived state. Savers store the threads of the graph under its name.
    pub fn new(name: impl Into<String>) -> Self {
        Self::over(name.into(), S::CHANNELS.iter().cloned().collect(), Arc::new(S::default))
    }
}

impl<C: Send + Sync + 'static> GraphBuilder<DynState, C> {
    /// Creates a builder for a graph over a [`DynState`]. The `schema` declares its channels.
    pub fn dynamic(name: impl Into<String>, schema: Schema) -> Self {
        let channels = schema.channels().cloned().collect();
        let schema = Arc::new(schema);
        Self::over(name.into(), channels, Arc::new(move || schema.initial()))
    }
}

impl<S: Values, C: Send + Sync + 'static> GraphBuilder<S, C> {
    /// Creates a builder for a graph over these channels. `initial` makes the state of a new thread.
    #[doc(hidden)]
    pub fn over(name: String, channels: Vec<ChannelSpec>, initial: Arc<dyn Fn() -> S + Send + Sync>) -> Self {
        Self { draft: Draft::new(name, channels, initial) }
    }

    /// Sets the description of the graph, which the models of supervisors and the clients of MCP servers receive.
    pub fn description(mut self, text: impl Into<String>) -> Self {
        self.draft.doc = text.into();
        self
    }

    /// Declares a question that the nodes can ask, like `asks: […]` in `graph!`. Servers then check answers against the
    /// type of the question, and [`DynGraphInfo::schemas`](super::DynGraphInfo::schemas) contains the JSON Schemas of
    /// the question and its answer. A subgraph declares its own questions.
    ///
    /// A node asks with an [`Ask`](crate::Ask): `Ask::<Pay>::of_task(&task).ask(Pay { … }).await?`.
    pub fn asks<Q: DeclaredQuestion>(mut self) -> Self {
        self.draft.asked.push(QuestionType::of::<Q>());
        self
    }

    /// Turns off checks that LangGraph does not make. The graph then accepts:
    ///
    /// * unreachable nodes, paths that never end, joins that never fire, duplicate edges, and equal arms of a route;
    /// * sends to a subgraph that keeps its state, and any target in commands of nodes without a [`goto`](Self::goto);
    /// * answers to a thread without open questions. Such an answer leaves a finished thread unchanged, and starts an
    ///   unknown thread with an empty input;
    /// * a command with targets that starts a thread. The targets then have no effect.
    pub fn lenient(mut self) -> Self {
        self.draft.lenient = true;
        self
    }

    /// Sets the channel that receives [messages from outside](CompiledGraph::send) between two supersteps. The channel
    /// must have a reducer or be a topic.
    pub fn inbox(mut self, channel: &str) -> Self {
        self.draft.set_inbox(channel);
        self
    }

    /// Adds a node. If the node returns commands with targets, declare the targets with [`goto`](Self::goto).
    pub fn node(mut self, name: impl Into<String>, node: impl IntoNode<S, C>) -> Self {
        let spec = NodeSpec { name: name.into().into(), ..NodeSpec::new("") };
        self.draft.add_node(spec, node.into_node());
        self
    }

    /// Adds a subgraph as a node. Channels with the same name in both states are shared.
    pub fn subgraph<T, I, O>(mut self, name: impl Into<String>, graph: &CompiledGraph<T, C, I, O>) -> Self
    where
        T: Values + SharesWith<S>,
    {
        let (nested, node) = assemble::attach(graph);
        let spec = NodeSpec { name: name.into().into(), nested: Some(nested), ..NodeSpec::new("") };
        self.draft.add_node(spec, node);
        self
    }

    /// Sets the way in which checkpoints store the state of the subgraph at this node. Without this call, the subgraph
    /// has [`Checkpoints::PerCall`]. Has no effect at a node that is not a subgraph.
    pub fn checkpoints(mut self, node: &str, checkpoints: Checkpoints) -> Self {
        self.draft.change_code(node, |code| code.checkpoints(checkpoints));
        self.draft.change_node(node, |spec| spec.per_thread = checkpoints == Checkpoints::PerThread);
        self
    }

    /// Defers a node: when it is triggered, it waits until no other task is left to run.
    pub fn defer(mut self, node: &str) -> Self {
        self.draft.change_node(node, |spec| spec.defer = true);
        self
    }

    /// Declares the channels that a node always writes. [`compile`](Self::compile) fails if two nodes declare the same
    /// channel, the channel has no reducer, and one of these nodes never runs in a superstep without the other.
    pub fn writes<'a>(mut self, node: &str, channels: impl IntoIterator<Item = &'a str>) -> Self {
        let channels: Vec<_> = channels.into_iter().map(|name| name.to_owned().into()).collect();
        self.draft.check_channels(node, &channels);
        self.draft.change_node(node, |spec| spec.writes = channels.into());
        self
    }

    /// Declares the nodes that the commands of a node may choose as targets. A second call replaces the first.
    pub fn goto<P: Into<EdgeEnd>>(mut self, node: &str, targets: impl IntoIterator<Item = P>) -> Self {
        let targets = targets.into_iter().map(Into::into).collect();
        self.draft.gotos.push((node.to_owned(), targets));
        self
    }

    /// Adds an edge, which the engine follows each time the node `from` has run.
    pub fn edge(mut self, from: impl Into<EdgeEnd>, to: impl Into<EdgeEnd>) -> Self {
        let (from, to) = (from.into(), to.into());
        self.draft.edges.push(Box::new(move |names| {
            Ok((EdgeSpec::Plain { from: names.source(&from)?, to: names.target(&to)? }, None))
        }));
        self
    }

    /// Adds a join: an edge that the engine follows when all nodes in `from` have run.
    pub fn join<'a>(mut self, from: impl IntoIterator<Item = &'a str>, to: impl Into<EdgeEnd>) -> Self {
        let from: Vec<EdgeEnd> = from.into_iter().map(EdgeEnd::from).collect();
        let to = to.into();
        self.draft.edges.push(Box::new(move |names| {
            let from: Result<Vec<usize>, String> =
                from.iter().map(|place| names.node(place, "each source of a join")).collect();
            Ok((EdgeSpec::Join { from: from?.into(), to: names.target(&to)? }, None))
        }));
        self
    }

    /// Adds a route, which is a conditional edge. The function `choose` reads the state and returns the name of one of
    /// the `arms`. The nodes of this arm run next.
    pub fn route<A: Into<String>, P: Into<EdgeEnd>, L: AsRef<str>>(
        mut self,
        from: impl Into<EdgeEnd>,
        label: impl Into<String>,
        arms: impl IntoIterator<Item = (A, Vec<P>)>,
        choose: impl Fn(&S) -> L + Send + Sync + 'static,
    ) -> Self {
        let (from, label) = (from.into(), label.into());
        let arms: Vec<(String, Vec<EdgeEnd>)> =
            arms.into_iter().map(|(arm, to)| (arm.into(), to.into_iter().map(Into::into).collect())).collect();
        self.draft.edges.push(Box::new(move |names| {
            let from = names.source(&from)?;
            let mut specs = Vec::new();
            for (arm, to) in &arms {
                let to: Result<Vec<_>, String> =
                    to.iter().map(|place| names.target(place).map(ArmTarget::Go)).collect();
                specs.push(ArmSpec { label: arm.clone().into(), to: to?.into() });
            }
            let code = arm_code(label.clone(), specs.clone(), choose);
            Ok((EdgeSpec::Route { from, label: label.into(), arms: specs.into() }, Some(code)))
        }));
        self
    }

    /// Adds an edge with a function that reads the state and returns a list of items. For each item, the edge starts
    /// one task of the node `to`. A task reads its item with [`Task::sent`].
    pub fn each<T: Payload, Items: IntoIterator<Item = T>>(
        mut self,
        from: impl Into<EdgeEnd>,
        label: impl Into<String>,
        to: impl Into<EdgeEnd>,
        items: impl Fn(&S) -> Items + Send + Sync + 'static,
    ) -> Self {
        let (from, to, label) = (from.into(), to.into(), label.into());
        self.draft.edges.push(Box::new(move |names| {
            let (from, node) = (names.source(&from)?, names.node(&to, "the target of a Send")?);
            let arm = ArmSpec { label: label.clone().into(), to: vec![ArmTarget::Send(node)].into() };
            let code: RouteFn<S> = Arc::new(move |state, routing| {
                items(state).into_iter().for_each(|item| routing.send(node, item));
                Ok(())
            });
            Ok((EdgeSpec::Route { from, label: label.into(), arms: vec![arm].into() }, Some(code)))
        }));
        self
    }

    /// Adds breakpoints before these nodes: a run stops before it would run one of them. To continue such a run, the
    /// graph needs a checkpointer.
    pub fn interrupt_before<'a>(mut self, nodes: impl IntoIterator<Item = &'a str>) -> Self {
        self.draft.interrupt_before.extend(nodes.into_iter().map(EdgeEnd::from));
        self
    }

    /// Adds breakpoints after these nodes: a run stops when one of them has run. To continue such a run, the graph
    /// needs a checkpointer.
    pub fn interrupt_after<'a>(mut self, nodes: impl IntoIterator<Item = &'a str>) -> Self {
        self.draft.interrupt_after.extend(nodes.into_iter().map(EdgeEnd::from));
        self
    }

    /// Compiles the graph.
    ///
    /// # Errors
    ///
    /// Fails if the graph has mistakes. If a name is unknown, the error contains all unknown names. Otherwise, it
    /// contains all mistakes in the shape of the graph.
    pub fn compile(self) -> Result<CompiledGraph<S, C>, BuildError> {
        self.draft.compile()
    }
}

fn arm_code<S, L: AsRef<str>>(
    label: String,
    arms: Vec<ArmSpec>,
    choose: impl Fn(&S) -> L + Send + Sync + 'static,
) -> RouteFn<S> {
    Arc::new(move |state: &S, routing: &mut Routing| {
        let chosen = choose(state);
        let chosen = chosen.as_ref();
        let Some(arm) = arms.iter().find(|arm| arm.label == chosen) else {
            let tail = hier_spec::did_you_mean(chosen, arms.iter().map(|arm| &*arm.label));
            return Err(NodeError::permanent(format!(
                "the node's route `{label}` chose `{chosen}`, which is not an arm of the route{tail}"
            )));
        };
        for to in arm.to.iter() {
            if let SpecTarget::Node(node) = to.target() {
                routing.go(node);
            }
        }
        Ok(())
    })
}

impl<S: Values, C> fmt::Debug for GraphBuilder<S, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GraphBuilder").field("name", &self.draft.name).finish_non_exhaustive()
    }
}
