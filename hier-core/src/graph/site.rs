//! Functions that the code of `graph!` calls. They keep that code short, and the compiler reports each wrong node only
//! once.

use std::fmt;
use std::marker::PhantomData;

use hier_spec::NestedSpec;
use hier_spec::trust::GraphTrust;

use super::flow::GraphFlow;
use super::handler::{Arguments, Attach, BoxFuture, NestedFacts, Node, NodeFuture, TakesPlain, TakesSent};
use super::task::boxed;
use crate::channel::Table;
use crate::engine::program::{Child, InputKey, NodeDef, NodeResult, Task, TellsApart};
use crate::error::NodeError;
use crate::question::QuestionFacts;
use crate::state::{InboxChannel, MayHaveTwoWriters, Reads, Values, WritableChannel, WriteClaim};

/// A helper with which `graph!` checks and calls the nodes of a graph. `S` is the state and `C` the context of the
/// graph.
#[derive(Debug)]
pub struct Site<S, C>(PhantomData<fn() -> (S, C)>);

/// A node after [`Site::of`] has checked its type. All other uses of a node begin with this value, so the compiler
/// reports a wrong node only once.
pub struct BoundNode<'a, S: Values, C, F, Args, Out, Accepts> {
    function: F,
    take: fn(&'a Task<S, C>) -> Result<Args, NodeError>,
    call: fn(F, Args) -> Out,
    facts: NodeInfo<S, C>,
    wants: PhantomData<fn() -> Accepts>,
}

/// The properties of a node that are known at compile time.
pub struct NodeInfo<S: Values, C> {
    child: fn() -> Option<Child<S, C>>,
    nested: Option<&'static NestedFacts>,
    reads: &'static [Reads],
    writes: &'static WriteClaim,
    questions: &'static QuestionFacts,
}

impl<S: Values, C> Clone for NodeInfo<S, C> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<S: Values, C> Copy for NodeInfo<S, C> {}

impl<S: Values, C, F, Args, Out, Accepts> fmt::Debug for BoundNode<'_, S, C, F, Args, Out, Accepts> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BoundNode").field("facts", &self.facts).finish_non_exhaustive()
    }
}

impl<S: Values, C> fmt::Debug for NodeInfo<S, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NodeInfo").field("depth", &self.depth()).finish_non_exhaustive()
    }
}

impl<S: Values, C> Site<S, C> {
    /// Creates the helper.
    #[allow(clippy::new_without_default)] // of use as a constant only
    pub const fn new() -> Self {
        Self(PhantomData)
    }

    /// Checks that the function or subgraph can be a node of the graph, and binds it to the graph.
    #[inline]
    pub const fn of<'a, F, Args, Out, Accepts>(&self, function: F) -> BoundNode<'a, S, C, F, Args, Out, Accepts>
    where
        F: Node<Args, Out = Out>,
        Args: Arguments<'a, S, C, Accepts = Accepts> + Attach<S, C, F>,
        Out: NodeFuture<S>,
    {
        let (child, nested, reads) = (Args::child, Args::NESTED, Args::READS);
        let facts = NodeInfo { child, nested, reads, writes: &Out::WRITES, questions: &Args::QUESTIONS };
        BoundNode { function, take: Args::take, call: F::call, facts, wants: PhantomData }
    }
}

impl<S: Values, C> Site<S, C> {
    /// Calls the `cache_key` function of a node with arguments from this task, and returns the hash of the key that the
    /// function returns. The function can have the same arguments as a node.
    pub fn key<'a, F, Args>(&self, task: &'a Task<S, C>, function: F) -> Result<InputKey, NodeError>
    where
        F: Node<Args>,
        Args: Arguments<'a, S, C>,
        F::Out: TellsApart,
    {
        function.call(Args::take(task)?).input_key()
    }
}

impl<'a, S: Values, C, F, Args, Out, Accepts> BoundNode<'a, S, C, F, Args, Out, Accepts> {
    /// Calls the node with arguments from this task.
    #[inline]
    pub fn call(self, task: &'a Task<S, C>) -> BoxFuture<'a, NodeResult<S>>
    where
        Out: NodeFuture<S> + Send + 'a,
    {
        boxed((self.take)(task).map(|args| (self.call)(self.function, args)))
    }

    /// Checks at compile time that plain edges may lead to the node.
    #[must_use]
    pub const fn plain(self) -> Self
    where
        Accepts: TakesPlain,
    {
        self
    }

    /// Combines the node with the payload of a Send. Call `fits` on the result.
    pub fn sent<T>(&self, item: T) -> Sending<T, Accepts> {
        Sending(item, PhantomData)
    }

    /// Returns the properties of the node that are known at compile time.
    pub const fn facts(&self) -> NodeInfo<S, C> {
        self.facts
    }
}

impl<S: Values, C> NodeInfo<S, C> {
    /// Compiles the subgraph of the node. Returns `None` if the node is a function.
    pub fn child(self) -> Option<Child<S, C>> {
        (self.child)()
    }

    /// Returns the spec of the node's subgraph, or `None` if the node is a function.
    pub const fn nested(self) -> Option<NestedSpec> {
        match self.nested {
            Some(graph) => Some(NestedSpec::Static(graph.spec)),
            None => None,
        }
    }

    /// Returns the number of graph levels in the node. A function has 0, and a subgraph without subgraphs has 1.
    pub const fn depth(self) -> usize {
        match self.nested {
            Some(graph) => graph.depth,
            None => 0,
        }
    }

    /// Returns the part of the task's input that each argument of the node reads.
    pub const fn reads(self) -> &'static [Reads] {
        self.reads
    }

    /// Returns the channels that the return value of the node's function writes.
    pub const fn writes(self) -> &'static WriteClaim {
        self.writes
    }

    /// Returns the reads and writes of the node's subgraph, or `None` if the node is a function.
    pub const fn graph_flow(self) -> Option<&'static GraphFlow> {
        match self.nested {
            Some(graph) => Some(&graph.flow),
            None => None,
        }
    }

    /// Returns the declared questions that the node can ask.
    pub const fn questions(self) -> QuestionFacts {
        *self.questions
    }

    /// Creates the definition of the node. `call` is the code that runs the node.
    pub fn node(self, call: for<'a> fn(&'a Task<S, C>) -> BoxFuture<'a, NodeResult<S>>) -> NodeDef<S, C>
    where
        C: 'static,
    {
        NodeDef::new(call, self.child()).reads(self.reads())
    }

    /// Returns true if the node is a subgraph that calls a model, itself or in one of its subgraphs.
    pub const fn asks_model(self) -> bool {
        matches!(self.nested, Some(graph) if graph.asks_model)
    }

    /// Returns the data that the node's subgraph may read and send, if the outer state has a conversation. Otherwise
    /// returns [`GraphTrust::NONE`]. `outer` contains the channels of the outer state.
    pub const fn trust(self, outer: &Table) -> GraphTrust {
        match self.nested {
            Some(graph) if outer.contains(hier_spec::trust::CONVERSATION) => graph.trust,
            _ => GraphTrust::NONE,
        }
    }
}

/// The payload of a Send to a node. The marker type `Accepts` describes the payload that the node's arguments accept.
#[derive(Debug)]
pub struct Sending<T, Accepts>(T, PhantomData<fn() -> Accepts>);

impl<T, Accepts> Sending<T, Accepts> {
    /// Checks at compile time that the node takes a payload of this type, and returns the payload.
    pub fn fits(self) -> T
    where
        Accepts: TakesSent<T>,
    {
        self.0
    }
}

/// Returns the largest of the depths, or 0 for an empty slice.
pub const fn deepest(depths: &[usize]) -> usize {
    let mut deepest = 0;
    let mut at = 0;
    while at < depths.len() {
        if depths[at] > deepest {
            deepest = depths[at];
        }
        at += 1;
    }
    deepest
}

/// Calls the closure of a route with the state. With this function, the compiler can infer the type of the closure's
/// argument.
pub fn choose<'a, S, T>(state: &'a S, route: impl FnOnce(&'a S) -> T) -> T {
    route(state)
}

/// Checks at compile time that nodes may write the channel.
pub fn writable(_channel: &impl WritableChannel) {}

/// Returns the name of the `inbox` channel. Checks at compile time that the channel can be an inbox.
pub fn inbox(channel: &impl InboxChannel) -> String {
    channel.channel_name().to_owned()
}

/// Checks at compile time that two nodes of one superstep may both write the channel.
pub fn needs_reducer(_channel: &impl MayHaveTwoWriters) {}
