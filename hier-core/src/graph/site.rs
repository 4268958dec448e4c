//! What the code of `graph!` calls, so that it is short itself, and so that what is wrong with a node is said once.

use std::fmt;
use std::marker::PhantomData;

use hier_spec::{GraphSpec, Nested};

use super::Child;
use super::handler::{Attach, BoxFuture, Invoke, Node, NodeFuture, NodeResult, TakesPlain, TakesSent};
use super::task::{Task, boxed};
use crate::error::NodeError;
use crate::state::{MayHaveTwoWriters, Values, WritableChannel};

/// A graph over `S` with the context `C`, as the place of nodes.
#[derive(Debug)]
pub struct Site<S, C>(PhantomData<fn() -> (S, C)>);

/// A node in its place. All conditions on a node are those of [`Site::of`]; what needs a node starts with that call, and
/// the compiler shows equal errors at one place once.
pub struct Spot<'a, S: Values, C, F, Out, Wants> {
    function: F,
    invoke: fn(F, &'a Task<S, C>) -> Result<Out, NodeError>,
    child: fn(&F) -> Option<Child<S, C>>,
    spec: Option<fn() -> &'static GraphSpec>,
    depth: usize,
    wants: PhantomData<fn() -> Wants>,
}

impl<S: Values, C, F, Out, Wants> fmt::Debug for Spot<'_, S, C, F, Out, Wants> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Spot").field("depth", &self.depth).finish_non_exhaustive()
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
    pub const fn of<'a, F, Args>(&self, function: F) -> Spot<'a, S, C, F, Args::Out, Args::Wants>
    where
        F: Node<Args> + Copy,
        Args: Invoke<'a, S, C, F> + Attach<S, C, F>,
    {
        Spot {
            function,
            invoke: Args::invoke,
            child: Args::child,
            spec: Args::SPEC,
            depth: Args::DEPTH,
            wants: PhantomData,
        }
    }
}

impl<'a, S: Values, C, F: Copy, Out, Wants> Spot<'a, S, C, F, Out, Wants> {
    /// Calls the node.
    #[inline]
    pub fn call(self, task: &'a Task<S, C>) -> BoxFuture<'a, NodeResult<S>>
    where
        Out: NodeFuture<S> + Send + 'a,
    {
        boxed((self.invoke)(self.function, task))
    }

    /// The graph that the node runs, if it is one.
    pub fn child(&self) -> Option<Child<S, C>> {
        (self.child)(&self.function)
    }

    /// The spec of the graph that the node runs, if it is one.
    pub const fn nested(&self) -> Option<Nested> {
        match self.spec {
            Some(spec) => Some(Nested::Static(spec)),
            None => None,
        }
    }

    /// How many graphs are nested in the node.
    pub const fn depth(&self) -> usize {
        self.depth
    }

    /// The node is reached by an edge that carries nothing.
    pub fn plain(&self)
    where
        Wants: TakesPlain,
    {
    }
}

/// An item that is sent.
#[derive(Debug)]
pub struct Item<T>(pub T);

impl<T> Item<T> {
    /// The item, if the node takes it.
    pub fn to<S: Values, C, F, Out, Wants: TakesSent<T>>(self, _node: Spot<'_, S, C, F, Out, Wants>) -> T {
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

/// Two nodes that always run in the same step write this channel.
pub fn needs_reducer(_channel: &impl MayHaveTwoWriters) {}
