//! What the code of `graph!` calls, so that it is short itself, and so that what is wrong with a node is said once.

use std::fmt;
use std::marker::PhantomData;

use hier_spec::{GraphSpec, NestedSpec};

use super::handler::{Arguments, Attach, BoxFuture, Node, NodeFuture, TakesPlain, TakesSent};
use super::task::boxed;
use crate::engine::program::{Child, InputKey, NodeResult, Reads, Task, TellsApart};
use crate::error::NodeError;
use crate::state::{MayHaveTwoWriters, TakesMail, Values, WritableChannel};

/// A graph over `S` with the context `C`, as the place of nodes.
#[derive(Debug)]
pub struct Site<S, C>(PhantomData<fn() -> (S, C)>);

/// A node in its place. All conditions on a node are those of [`Site::of`]; what needs a node starts with that call, and
/// the compiler shows equal errors at one place once.
pub struct Spot<'a, S: Values, C, F, Args, Out, Wants> {
    function: F,
    take: fn(&'a Task<S, C>) -> Result<Args, NodeError>,
    call: fn(F, Args) -> Out,
    facts: Facts<S, C>,
    wants: PhantomData<fn() -> Wants>,
}

/// What is known of a node while compiling: whether it is a graph.
pub struct Facts<S: Values, C> {
    child: fn() -> Option<Child<S, C>>,
    spec: Option<fn() -> &'static GraphSpec>,
    depth: usize,
    asks_model: bool,
    reads: &'static [Reads],
}

impl<S: Values, C, F, Args, Out, Wants> fmt::Debug for Spot<'_, S, C, F, Args, Out, Wants> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Spot").field("facts", &self.facts).finish_non_exhaustive()
    }
}

impl<S: Values, C> fmt::Debug for Facts<S, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Facts").field("depth", &self.depth).finish_non_exhaustive()
    }
}

impl<S: Values, C> Site<S, C> {
    /// The place itself.
    #[allow(clippy::new_without_default)] // of use as a constant only
    pub const fn new() -> Self {
        Self(PhantomData)
    }

    /// A node in this place.
    #[inline]
    pub const fn of<'a, F, Args, Out, Wants>(&self, function: F) -> Spot<'a, S, C, F, Args, Out, Wants>
    where
        F: Node<Args, Out = Out> + Copy,
        Args: Arguments<'a, S, C, Wants = Wants> + Attach<S, C, F>,
    {
        let (child, spec, depth, asks_model, reads) =
            (Args::child, Args::SPEC, Args::DEPTH, Args::ASKS_MODEL, Args::READS);
        let facts = Facts { child, spec, depth, asks_model, reads };
        Spot { function, take: Args::take, call: F::call, facts, wants: PhantomData }
    }
}

impl<S: Values, C> Site<S, C> {
    /// What a function says that tells the inputs of a node apart. It takes what a node can take.
    pub fn key<'a, F, Args>(&self, task: &'a Task<S, C>, function: F) -> Result<InputKey, NodeError>
    where
        F: Node<Args>,
        Args: Arguments<'a, S, C>,
        F::Out: TellsApart,
    {
        function.call(Args::take(task)?).input_key()
    }
}

impl<'a, S: Values, C, F: Copy, Args, Out, Wants> Spot<'a, S, C, F, Args, Out, Wants> {
    /// Calls the node.
    #[inline]
    pub fn call(self, task: &'a Task<S, C>) -> BoxFuture<'a, NodeResult<S>>
    where
        Out: NodeFuture<S> + Send + 'a,
    {
        boxed((self.take)(task).map(|args| (self.call)(self.function, args)))
    }

    /// The node is reached by an edge that carries nothing.
    #[must_use]
    pub const fn plain(self) -> Self
    where
        Wants: TakesPlain,
    {
        self
    }

    /// The node is sent this item.
    pub fn sent<T>(&self, item: T) -> Sending<T, Wants> {
        Sending(item, PhantomData)
    }

    /// What is known of the node.
    pub const fn facts(&self) -> Facts<S, C> {
        Facts { ..self.facts }
    }
}

impl<S: Values, C> Facts<S, C> {
    /// The graph that the node runs, if it is one.
    pub fn child(&self) -> Option<Child<S, C>> {
        (self.child)()
    }

    /// The spec of the graph that the node runs, if it is one.
    pub const fn nested(&self) -> Option<NestedSpec> {
        match self.spec {
            Some(spec) => Some(NestedSpec::Static(spec)),
            None => None,
        }
    }

    /// How many graphs are nested in the node.
    pub const fn depth(&self) -> usize {
        self.depth
    }

    /// What the node's arguments read.
    pub const fn reads(&self) -> &'static [Reads] {
        self.reads
    }

    /// Whether the node is a graph that asks a model.
    pub const fn asks_model(&self) -> bool {
        self.asks_model
    }
}

/// An item that is sent to a node which wants this.
#[derive(Debug)]
pub struct Sending<T, Wants>(T, PhantomData<fn() -> Wants>);

impl<T, Wants> Sending<T, Wants> {
    /// The item, if the node takes it.
    pub fn fits(self) -> T
    where
        Wants: TakesSent<T>,
    {
        self.0
    }
}

/// The greatest of the depths.
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

/// Calls a closure that routes, whose argument's type need not be written.
pub fn choose<'a, S, T>(state: &'a S, route: impl FnOnce(&'a S) -> T) -> T {
    route(state)
}

/// A node says that it writes this channel.
pub fn writable(_channel: &impl WritableChannel) {}

/// The name of the channel to which messages from outside are written.
pub fn inbox(channel: &impl TakesMail) -> String {
    channel.channel_name().to_owned()
}

/// Two nodes that always run in the same step write this channel.
pub fn needs_reducer(_channel: &impl MayHaveTwoWriters) {}
