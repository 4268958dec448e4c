//! How an async function becomes a node.
//!
//! A node is an `async fn` of up to four extractors, in any order. The macro writes `task.call(function)` in a scope
//! where the task has a concrete lifetime; the functions here pick the extractors by the function's own signature. Each
//! condition is a trait of its own, so that what the compiler says is about the one that does not hold.

use std::marker::PhantomData;

pub use futures_core::future::BoxFuture;

pub use crate::engine::program::{Failure, NodeResult};

use super::Graph;
use crate::engine::program::{Child, Command, Output, Payload, Reads, Run, Task};
use crate::error::{IntoNodeError, NodeError};
use crate::state::{DynState, DynUpdate, Values};

/// Something that a node can take: the state, a view of it, what it was sent, the run.
#[diagnostic::on_unimplemented(
    message = "a node of a graph over `{S}` with the context `{C}` cannot take a `{Self}`",
    label = "takes a `{Self}`",
    note = "a node takes up to four of: `&{S}`, a `#[derive(View)]` of it by value, `Sent<T>`, `&Run<{C}>`; the handler of \
            `on_error` also takes `Failure`"
)]
pub trait Extract<'a, S: Values, C>: Sized {
    /// What a Send must carry for this extractor: [`Nothing`], [`Exactly<T>`] or [`Perhaps<T>`].
    type Wants;

    /// What of the task's input it is, by which a `cache` tells results apart.
    const READS: Reads = Reads::Input;

    /// Takes it from the task.
    fn extract(task: &'a Task<S, C>) -> std::result::Result<Self, NodeError>;
}

/// The extractor wants nothing of a Send.
pub struct Nothing;
/// The extractor wants a `T` from a Send: the node cannot be reached by a plain edge.
pub struct Exactly<T>(PhantomData<fn() -> T>);
/// The extractor takes a `T` from a Send, or nothing from a plain edge.
pub struct Perhaps<T>(PhantomData<fn() -> T>);
/// The extractor wants the error of a failed node: only handlers can be reached that way.
pub struct AnError;

impl<'a, S: Values, C> Extract<'a, S, C> for &'a S {
    type Wants = Nothing;
    const READS: Reads = Reads::State;

    fn extract(task: &'a Task<S, C>) -> std::result::Result<Self, NodeError> {
        Ok(task.state())
    }
}

impl<'a, S: Values, C> Extract<'a, S, C> for &'a Run<C> {
    type Wants = Nothing;
    const READS: Reads = Reads::Nothing;

    fn extract(task: &'a Task<S, C>) -> std::result::Result<Self, NodeError> {
        Ok(task.run())
    }
}

/// What a Send carried to this task: `async fn fetch(Sent(doc): Sent<DocumentId>) -> …`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sent<T>(pub T);

impl<'a, S: Values, C, T: Payload> Extract<'a, S, C> for Sent<T> {
    type Wants = Exactly<T>;
    const READS: Reads = Reads::Sent;

    fn extract(task: &'a Task<S, C>) -> std::result::Result<Self, NodeError> {
        task.sent().map(Sent)
    }
}

impl<'a, S: Values, C, T: Payload> Extract<'a, S, C> for Option<Sent<T>> {
    type Wants = Perhaps<T>;
    const READS: Reads = Reads::Sent;

    fn extract(task: &'a Task<S, C>) -> std::result::Result<Self, NodeError> {
        if task.was_sent() { task.sent().map(|item| Some(Sent(item))) } else { Ok(None) }
    }
}

impl<'a, S: Values, C> Extract<'a, S, C> for Failure {
    type Wants = AnError;
    const READS: Reads = Reads::Nothing;

    fn extract(task: &'a Task<S, C>) -> std::result::Result<Self, NodeError> {
        task.failure().ok_or_else(|| NodeError::permanent("`Failure` is only there in a handler of `on_error`"))
    }
}

/// Something that can stand in `nodes: […]`: an async function (whose arguments are the tuple `Args`) or a graph.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no node: neither a function of up to four arguments nor a graph",
    label = "no node",
    note = "a node is an `async fn` of up to four of `&State`, a view, `Sent<T>`, `&Run<C>`, or a type made by `graph!`"
)]
pub trait Node<Args>: Sized {
    /// Its return value.
    type Out;

    /// Calls it.
    fn call(self, args: Args) -> Self::Out;
}

/// The arguments of a node, taken from its task.
pub trait Arguments<'a, S: Values, C>: Sized {
    /// The requirement of all arguments on a Send.
    type Wants;

    /// What they read.
    const READS: &'static [Reads];

    /// Takes them from the task.
    fn take(task: &'a Task<S, C>) -> std::result::Result<Self, NodeError>;
}

/// What a graph takes as a node: the task itself.
pub struct SubgraphArgs<'a, S: Values, C, G> {
    pub(super) task: &'a Task<S, C>,
    graph: PhantomData<G>,
}

impl<'a, S: Values, C, G: Graph> Arguments<'a, S, C> for SubgraphArgs<'a, S, C, G> {
    type Wants = Perhaps<G::State>;
    const READS: &'static [Reads] = &[Reads::Input];

    fn take(task: &'a Task<S, C>) -> std::result::Result<Self, NodeError> {
        Ok(Self { task, graph: PhantomData })
    }
}

/// The requirement of two extractors on a Send.
#[diagnostic::on_unimplemented(message = "a node can take only one `Sent<…>`", label = "takes two")]
pub trait And<Other> {
    /// Both wishes as one.
    type Both;
}

impl<T> And<T> for Nothing {
    type Both = T;
}
impl<T> And<Nothing> for Exactly<T> {
    type Both = Exactly<T>;
}
impl<T> And<Nothing> for Perhaps<T> {
    type Both = Perhaps<T>;
}
impl And<Nothing> for AnError {
    type Both = AnError;
}
impl<T> And<AnError> for Exactly<T> {
    type Both = AnError;
}
impl<T> And<Exactly<T>> for AnError {
    type Both = AnError;
}
impl<T> And<AnError> for Perhaps<T> {
    type Both = AnError;
}
impl<T> And<Perhaps<T>> for AnError {
    type Both = AnError;
}

/// Shorthand for what both want.
type Join<A, B> = <A as And<B>>::Both;

impl<F: FnOnce() -> R, R> Node<()> for F {
    type Out = R;

    fn call(self, (): ()) -> R {
        self()
    }
}

impl<'a, S: Values, C> Arguments<'a, S, C> for () {
    type Wants = Nothing;
    const READS: &'static [Reads] = &[];

    fn take(_task: &'a Task<S, C>) -> std::result::Result<Self, NodeError> {
        Ok(())
    }
}

macro_rules! arity {
    ($($arg:ident)+) => {
        impl<F: FnOnce($($arg),+) -> R, R, $($arg),+> Node<($($arg,)+)> for F {
            type Out = R;

            #[allow(non_snake_case)]
            #[inline]
            fn call(self, ($($arg,)+): ($($arg,)+)) -> R {
                self($($arg),+)
            }
        }

        impl<'a, S: Values, C, $($arg: Extract<'a, S, C>),+> Arguments<'a, S, C> for ($($arg,)+)
        where
            ($($arg::Wants,)+): Combine,
        {
            type Wants = <($($arg::Wants,)+) as Combine>::All;
            const READS: &'static [Reads] = &[$($arg::READS),+];

            #[inline]
            fn take(task: &'a Task<S, C>) -> std::result::Result<Self, NodeError> {
                Ok(($($arg::extract(task)?,)+))
            }
        }
    };
}

/// The requirement of all extractors of a node on a Send.
pub trait Combine {
    /// All wishes as one.
    type All;
}

impl<A> Combine for (A,) {
    type All = A;
}
impl<A: And<B>, B> Combine for (A, B) {
    type All = A::Both;
}
impl<A: And<B>, B, C> Combine for (A, B, C)
where
    A::Both: And<C>,
{
    type All = Join<A::Both, C>;
}
impl<A: And<B>, B, C, D> Combine for (A, B, C, D)
where
    A::Both: And<C>,
    Join<A::Both, C>: And<D>,
{
    type All = Join<Join<A::Both, C>, D>;
}

arity!(A1);
arity!(A1 A2);
arity!(A1 A2 A3);
arity!(A1 A2 A3 A4);

/// The return types of nodes: an update, a [`Command`], `()`, or a `Result` of one of these.
#[diagnostic::on_unimplemented(
    message = "a node of a graph over `{S}` cannot return a `{Self}`",
    label = "returns a `{Self}`",
    note = "a node returns an update (`{S}::update()…`), a `Command`, `()`, or a `Result` of these whose error converts \
            into `NodeError`"
)]
pub trait IntoOutput<S: Values> {
    /// The update and where to go on.
    fn into_output(self) -> NodeResult<S>;
}

impl<S: Values> IntoOutput<S> for () {
    fn into_output(self) -> NodeResult<S> {
        Ok(Output::default())
    }
}

impl IntoOutput<DynState> for DynUpdate {
    fn into_output(self) -> NodeResult<DynState> {
        Ok(Output::update(self))
    }
}

impl<S: Values> IntoOutput<S> for Command<S> {
    fn into_output(self) -> NodeResult<S> {
        if self.answers.is_some() {
            return Err(NodeError::permanent(
                "its command answers a question, which only the caller of `invoke` can: ask with `run.interrupt`",
            ));
        }
        Ok(self.into())
    }
}

impl<S: Values> IntoOutput<S> for Output<S> {
    fn into_output(self) -> NodeResult<S> {
        Ok(self)
    }
}

impl<S: Values, T: IntoOutput<S>, E: IntoNodeError> IntoOutput<S> for std::result::Result<T, E> {
    fn into_output(self) -> NodeResult<S> {
        self.map_err(IntoNodeError::into_node_error)?.into_output()
    }
}

/// The return type of a node function: a future of something that a node may return.
#[diagnostic::on_unimplemented(
    message = "a node must be an `async fn`, and this one returns a `{Self}`",
    label = "not async",
    note = "write `async fn`, or wrap the value: `async move {{ … }}`"
)]
pub trait NodeFuture<S: Values>: Future {
    /// The output as the engine takes it.
    fn output(output: Self::Output) -> NodeResult<S>;
}

impl<S: Values, F: Future> NodeFuture<S> for F
where
    F::Output: IntoOutput<S>,
{
    fn output(output: F::Output) -> NodeResult<S> {
        output.into_output()
    }
}

/// A node that a plain edge, an arm or a join can reach.
#[diagnostic::on_unimplemented(
    message = "a plain edge leads to a node that takes a `Sent<…>` or a `Failure`",
    label = "reached by a plain edge, which carries nothing",
    note = "reach it with `for item in items {{ node(item) }}` or a Send, or take `Option<Sent<…>>`"
)]
pub trait TakesPlain {}
impl TakesPlain for Nothing {}
impl<T> TakesPlain for Perhaps<T> {}

/// A node that a Send of a `T` can reach.
#[diagnostic::on_unimplemented(
    message = "this node is sent a `{T}`, which it does not take",
    label = "cannot take a `{T}`",
    note = "the node must take `Sent<{T}>` (or `Option<Sent<{T}>>`); what is sent is a value of its own: of references send clones, as \
            `for item in state.items` and `.iter().cloned()` do"
)]
pub trait TakesSent<T> {}
impl<T> TakesSent<T> for Exactly<T> {}
impl<T> TakesSent<T> for Perhaps<T> {}

/// Whether and how a node is a graph of its own.
pub trait Attach<S: Values, C, F> {
    /// The graph, compiled.
    fn child() -> Option<Child<S, C>>;
    /// The graph's spec.
    const SPEC: Option<fn() -> &'static hier_spec::GraphSpec>;
    /// How many graphs are nested in it. A graph that contains itself has none: the compiler finds the cycle.
    const DEPTH: usize;
    /// Whether it is a graph that asks a model.
    const ASKS_MODEL: bool;
}
