//! Builds graphs at run time, with the checks of the macro as errors.

use std::fmt;
use std::future::Future;
use std::sync::Arc;

use hier_spec::{ArmSpec, ArmTarget, EdgeSpec, NodeSpec, Source, Target as SpecTarget};

use super::assemble::{self, Draft};
use super::compiled::CompiledGraph;
use super::handler::IntoOutput;
use crate::channel::ChannelSpec;
use crate::engine::program::{Checkpoints, End, NodeDef, Payload, RouteFn, Routing, Start, Task, body};
use crate::error::{BuildError, NodeError};
use crate::state::{DynState, Schema, SharesWith, State, Values};

/// Builds a graph at run time, over a derived state or a [`DynState`].
///
/// The graph is checked as the macro checks it; [`compile`](Self::compile) returns every wrong name at once, and, once
/// the names are right, everything that is wrong with the graph's shape. Node names are texts, START and END the constants [`START`](super::START) and [`END`](super::END).
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
/// let mut graph: GraphBuilder<DynState> = GraphBuilder::dynamic("hello", schema);
/// graph.node("greet", async |task: Task<DynState>| task.state().update(json!({"log": ["hello"]})));
/// graph.edge(START, "greet").edge("greet", END);
/// let graph = graph.compile()?;
/// let out = graph.invoke(graph.update(json!({}))?).await?;
/// assert_eq!(out.state().get("log"), Some(&json!(["hello"])));
/// # Ok(())
/// # }
/// ```
#[must_use = "a builder does nothing until it is compiled"]
pub struct GraphBuilder<S: Values, C = ()> {
    pub(crate) draft: Draft<S, C>,
}

/// A node, START or END, as the caller of a builder names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// The beginning.
    Start,
    /// The end.
    End,
    /// The node with this name.
    Node(String),
}

impl From<Start> for Place {
    fn from(_: Start) -> Self {
        Self::Start
    }
}

impl From<End> for Place {
    fn from(_: End) -> Self {
        Self::End
    }
}

impl From<&str> for Place {
    /// The names that START and END have in events are those places too.
    fn from(name: &str) -> Self {
        match name {
            hier_spec::START => Self::Start,
            hier_spec::END => Self::End,
            _ => Self::Node(name.to_owned()),
        }
    }
}

impl From<String> for Place {
    fn from(name: String) -> Self {
        Self::from(name.as_str())
    }
}

impl From<&String> for Place {
    fn from(name: &String) -> Self {
        Self::from(name.as_str())
    }
}

/// Something that can be a node of a graph built at run time: an asynchronous function of the [`Task`], or a
/// [`NodeDef`] made of one with [`NodeDef::task`].
pub trait IntoNode<S: Values, C> {
    /// The node.
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
    /// A node that calls this function with its task.
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

    /// Lets this function take over when the node has failed for good: [`Task::failure`] says how. Its output is the
    /// node's; the node's own edges are not followed.
    #[must_use]
    pub fn on_failure<F, Fut>(mut self, function: F) -> Self
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
    /// A graph over a derived state, with this name.
    pub fn new(name: impl Into<String>) -> Self {
        Self::over(name.into(), S::CHANNELS.iter().cloned().collect(), Arc::new(S::default))
    }
}

impl<C: Send + Sync + 'static> GraphBuilder<DynState, C> {
    /// A graph over a state whose channels are declared at run time, with this name.
    pub fn dynamic(name: impl Into<String>, schema: Schema) -> Self {
        let channels = schema.channels().cloned().collect();
        let schema = Arc::new(schema);
        Self::over(name.into(), channels, Arc::new(move || schema.initial()))
    }
}

impl<S: Values, C: Send + Sync + 'static> GraphBuilder<S, C> {
    /// A graph over these channels, whose state begins like this.
    #[doc(hidden)]
    pub fn over(name: String, channels: Vec<ChannelSpec>, initial: Arc<dyn Fn() -> S + Send + Sync>) -> Self {
        Self { draft: Draft::new(name, channels, initial) }
    }

    /// Describes the graph.
    pub fn description(&mut self, text: impl Into<String>) -> &mut Self {
        self.draft.doc = text.into();
        self
    }

    /// Accepts what the reference accepts: nodes that cannot be reached or have no way on, joins that cannot fire,
    /// doubled edges, commands that go to any node unless [`goto`](Self::goto) says otherwise, and answers to threads that
    /// ask nothing: one that has finished stays as it is, one that is unknown begins with an empty input.
    pub fn lenient(&mut self) -> &mut Self {
        self.draft.lenient = true;
        self
    }

    /// Lets messages from outside ([`CompiledGraph::send`]) reach the threads of the graph: they are written to this channel between
    /// two supersteps. It must have a reducer, or be a topic.
    pub fn inbox(&mut self, channel: &str) -> &mut Self {
        self.draft.set_inbox(channel);
        self
    }

    /// Adds a node. Where its commands may go is declared with [`goto`](Self::goto).
    pub fn node(&mut self, name: impl Into<String>, node: impl IntoNode<S, C>) -> &mut Self {
        let spec = NodeSpec { name: name.into().into(), ..NodeSpec::new("") };
        self.draft.add_node(spec, node.into_node());
        self
    }

    /// Adds a node that runs a graph, which shares the channels of equal names.
    pub fn subgraph<T, I, O>(&mut self, name: impl Into<String>, graph: &CompiledGraph<T, C, I, O>) -> &mut Self
    where
        T: Values + SharesWith<S>,
    {
        let (nested, node) = assemble::attach(graph);
        let spec = NodeSpec { name: name.into().into(), nested: Some(nested), ..NodeSpec::new("") };
        self.draft.add_node(spec, node);
        self
    }

    /// Says which checkpoints the graph has that a node runs.
    pub fn checkpoints(&mut self, node: &str, checkpoints: Checkpoints) -> &mut Self {
        self.draft.change_code(node, |code| code.checkpoints(checkpoints));
        self.draft.change_node(node, |spec| spec.per_thread = checkpoints == Checkpoints::PerThread);
        self
    }

    /// Lets a node wait until nothing else is left to run.
    pub fn defer(&mut self, node: &str) -> &mut Self {
        self.draft.change_node(node, |spec| spec.defer = true);
        self
    }

    /// Declares the channels that a node always writes, for the check of two writers.
    pub fn writes<'a>(&mut self, node: &str, channels: impl IntoIterator<Item = &'a str>) -> &mut Self {
        let channels: Vec<_> = channels.into_iter().map(|name| name.to_owned().into()).collect();
        self.draft.check_channels(node, &channels);
        self.draft.change_node(node, |spec| spec.writes = channels.into());
        self
    }

    /// Declares the only targets that a node's commands may choose. Said again, it replaces what was said before.
    pub fn goto<P: Into<Place>>(&mut self, node: &str, targets: impl IntoIterator<Item = P>) -> &mut Self {
        let targets = targets.into_iter().map(Into::into).collect();
        self.draft.gotos.push((node.to_owned(), targets));
        self
    }

    /// Adds an edge that is always followed.
    pub fn edge(&mut self, from: impl Into<Place>, to: impl Into<Place>) -> &mut Self {
        let (from, to) = (from.into(), to.into());
        self.draft.edges.push(Box::new(move |names| {
            Ok((EdgeSpec::Plain { from: names.source(&from)?, to: names.target(&to)? }, None))
        }));
        self
    }

    /// Adds an edge that is followed once all of `from` have run.
    pub fn join<'a>(&mut self, from: impl IntoIterator<Item = &'a str>, to: impl Into<Place>) -> &mut Self {
        let from: Vec<Place> = from.into_iter().map(Place::from).collect();
        let to = to.into();
        self.draft.edges.push(Box::new(move |names| {
            let from: Result<Vec<usize>, String> = from.iter().map(|place| names.node(place, "a join")).collect();
            Ok((EdgeSpec::Join { from: from?.into(), to: names.target(&to)? }, None))
        }));
        self
    }

    /// Adds a route: `choose` names one of the arms, each of which leads to any number of places.
    pub fn route<A: Into<String>, P: Into<Place>, L: AsRef<str>>(
        &mut self,
        from: impl Into<Place>,
        label: impl Into<String>,
        arms: impl IntoIterator<Item = (A, Vec<P>)>,
        choose: impl Fn(&S) -> L + Send + Sync + 'static,
    ) -> &mut Self {
        let (from, label) = (from.into(), label.into());
        let arms: Vec<(String, Vec<Place>)> =
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

    /// Adds a map: one task of `to` for each item, which it takes as [`Task::sent`].
    pub fn each<T: Payload, Items: IntoIterator<Item = T>>(
        &mut self,
        from: impl Into<Place>,
        label: impl Into<String>,
        to: impl Into<Place>,
        items: impl Fn(&S) -> Items + Send + Sync + 'static,
    ) -> &mut Self {
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

    /// Stops runs before these nodes. To continue such a run, the graph needs a saver.
    pub fn interrupt_before<'a>(&mut self, nodes: impl IntoIterator<Item = &'a str>) -> &mut Self {
        self.draft.interrupt_before.extend(nodes.into_iter().map(Place::from));
        self
    }

    /// Stops runs after these nodes. To continue such a run, the graph needs a saver.
    pub fn interrupt_after<'a>(&mut self, nodes: impl IntoIterator<Item = &'a str>) -> &mut Self {
        self.draft.interrupt_after.extend(nodes.into_iter().map(Place::from));
        self
    }

    /// The graph, ready to run, or everything that is wrong with it.
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
            return Err(NodeError::permanent(format!("its route `{label}` chose `{chosen}`, which is no arm{tail}")));
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

/// Where a builder's edges may start.
pub(crate) fn source(place: &Place, node: impl FnOnce(&Place) -> Result<usize, String>) -> Result<Source, String> {
    match place {
        Place::Start => Ok(Source::Start),
        Place::End => Err("an edge cannot start at END".to_owned()),
        Place::Node(_) => node(place).map(Source::Node),
    }
}
