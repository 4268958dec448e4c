//! Async functions as nodes.
//!
//! A node is an `async fn` with up to four arguments, in any order. Each argument is a type that implements
//! [`Extract`]: the state, a view, a payload, a question, or the run. The return value implements [`IntoOutput`]. Each
//! other condition on a node is a separate trait, so that the compiler reports the condition that does not hold.

use std::marker::PhantomData;

pub use futures_core::future::BoxFuture;

pub use crate::engine::program::{Failure, NodeResult};

use super::Graph;
use super::flow::GraphFlow;
use crate::engine::program::{Child, Command, Output, Payload, Run, Task};
use crate::error::{IntoNodeError, NodeError};
use crate::question::QuestionFacts;
use crate::state::{DynState, DynUpdate, Reads, Values, WriteClaim};

/// A type that a node function can take as an argument: the state, a view, a payload, a question, or the run.
#[diagnostic::on_unimplemented(
    message = "a node of a graph over `{S}` with the context `{C}` cannot take a `{Self}`",
    label = "takes a `{Self}`",
    note = "a node takes up to four of: `&{S}`, a `#[derive(View)]` of it by value, `Sent<T>`, `&Run<{C}>`; the handler of \
            `on_error` also takes `Failure`"
)]
pub trait Extract<'a, S: Values, C>: Sized {
    /// A marker for the payload that the argument needs: [`NoPayload`], [`RequiredPayload<T>`], [`OptionalPayload<T>`]
    /// or [`ErrorPayload`].
    type Accepts;

    /// The part of the task's input that the argument reads. The default key of a `cache` contains this part. Defaults
    /// to the whole input.
    const READS: Reads = Reads::Input;

    /// The declared questions that the argument can ask.
    #[doc(hidden)]
    const QUESTIONS: QuestionFacts = QuestionFacts::Unknown;

    /// Extracts the argument from the task.
    fn extract(task: &'a Task<S, C>) -> std::result::Result<Self, NodeError>;
}

/// Marks an argument that needs no payload.
pub struct NoPayload;
/// Marks an argument that needs a payload of type `T`. Only Sends can lead to a node with such an argument.
pub struct RequiredPayload<T>(PhantomData<fn() -> T>);
/// Marks an argument that takes a payload of type `T` if a Send started the task. Sends and plain edges can lead to a
/// node with such an argument.
pub struct OptionalPayload<T>(PhantomData<fn() -> T>);
/// Marks an argument that needs the error of a failed node. Only an error handler can have such an argument.
pub struct ErrorPayload;

impl<'a, S: Values, C> Extract<'a, S, C> for &'a S {
    type Accepts = NoPayload;
    const READS: Reads = Reads::State;
    const QUESTIONS: QuestionFacts = QuestionFacts::Nothing;

    fn extract(task: &'a Task<S, C>) -> std::result::Result<Self, NodeError> {
        Ok(task.state())
    }
}

impl<'a, S: Values, C> Extract<'a, S, C> for &'a Run<C> {
    type Accepts = NoPayload;
    const READS: Reads = Reads::Nothing;
    const QUESTIONS: QuestionFacts = QuestionFacts::Nothing;

    fn extract(task: &'a Task<S, C>) -> std::result::Result<Self, NodeError> {
        Ok(task.run())
    }
}

/// The payload of a Send, as a node argument: `async fn fetch(Sent(doc): Sent<DocumentId>) -> …`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sent<T>(pub T);

impl<'a, S: Values, C, T: Payload> Extract<'a, S, C> for Sent<T> {
    type Accepts = RequiredPayload<T>;
    const READS: Reads = Reads::Sent;
    const QUESTIONS: QuestionFacts = QuestionFacts::Nothing;

    fn extract(task: &'a Task<S, C>) -> std::result::Result<Self, NodeError> {
        task.sent().map(Sent)
    }
}

impl<'a, S: Values, C, T: Payload> Extract<'a, S, C> for Option<Sent<T>> {
    type Accepts = OptionalPayload<T>;
    const READS: Reads = Reads::Sent;
    const QUESTIONS: QuestionFacts = QuestionFacts::Nothing;

    fn extract(task: &'a Task<S, C>) -> std::result::Result<Self, NodeError> {
        if task.was_sent() { task.sent().map(|item| Some(Sent(item))) } else { Ok(None) }
    }
}

impl<'a, S: Values, C> Extract<'a, S, C> for Failure {
    type Accepts = ErrorPayload;
    const READS: Reads = Reads::Nothing;
    const QUESTIONS: QuestionFacts = QuestionFacts::Nothing;

    fn extract(task: &'a Task<S, C>) -> std::result::Result<Self, NodeError> {
        task.failure().ok_or_else(|| NodeError::permanent("`Failure` exists only in a handler of `on_error`"))
    }
}

/// A node in `nodes: […]`: an async function with the arguments `Args`, or a graph.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a node: it is neither a function of up to four arguments nor a graph",
    label = "not a node",
    note = "a node is an `async fn` of up to four of `&State`, a view, `Sent<T>`, `&Run<C>`, or a type made by `graph!`"
)]
pub trait Node<Args>: Sized {
    /// The return type of the node function.
    type Out;

    /// Calls the node function with these arguments.
    fn call(self, args: Args) -> Self::Out;
}

/// The tuple of all arguments of a node function.
pub trait Arguments<'a, S: Values, C>: Sized {
    /// A marker for the payload that the arguments together need.
    type Accepts;

    /// The part of the task's input that each argument reads.
    const READS: &'static [Reads];

    /// The declared questions that the arguments can ask.
    const QUESTIONS: QuestionFacts;

    /// Extracts the arguments from the task.
    fn take(task: &'a Task<S, C>) -> std::result::Result<Self, NodeError>;
}

/// The arguments of a node that is a subgraph. Such a node takes the whole task.
pub struct SubgraphArgs<'a, S: Values, C, G> {
    pub(super) task: &'a Task<S, C>,
    graph: PhantomData<G>,
}

impl<'a, S: Values, C, G: Graph> Arguments<'a, S, C> for SubgraphArgs<'a, S, C, G> {
    type Accepts = OptionalPayload<G::State>;
    const READS: &'static [Reads] = &[Reads::Input];
    const QUESTIONS: QuestionFacts = G::QUESTIONS;

    fn take(task: &'a Task<S, C>) -> std::result::Result<Self, NodeError> {
        Ok(Self { task, graph: PhantomData })
    }
}

/// Combines the payload markers of two arguments. Two arguments cannot both take a payload of a Send.
#[diagnostic::on_unimplemented(message = "a node can take only one `Sent<…>`", label = "takes two")]
pub trait And<Other> {
    /// The marker for the payload that the two arguments together need.
    type Both;
}

impl<T> And<T> for NoPayload {
    type Both = T;
}
impl<T> And<NoPayload> for RequiredPayload<T> {
    type Both = RequiredPayload<T>;
}
impl<T> And<NoPayload> for OptionalPayload<T> {
    type Both = OptionalPayload<T>;
}
impl And<NoPayload> for ErrorPayload {
    type Both = ErrorPayload;
}
impl<T> And<ErrorPayload> for RequiredPayload<T> {
    type Both = ErrorPayload;
}
impl<T> And<RequiredPayload<T>> for ErrorPayload {
    type Both = ErrorPayload;
}
impl<T> And<ErrorPayload> for OptionalPayload<T> {
    type Both = ErrorPayload;
}
impl<T> And<OptionalPayload<T>> for ErrorPayload {
    type Both = ErrorPayload;
}

type Join<A, B> = <A as And<B>>::Both;

impl<F: FnOnce() -> R, R> Node<()> for F {
    type Out = R;

    fn call(self, (): ()) -> R {
        self()
    }
}

impl<'a, S: Values, C> Arguments<'a, S, C> for () {
    type Accepts = NoPayload;
    const READS: &'static [Reads] = &[];
    const QUESTIONS: QuestionFacts = QuestionFacts::Nothing;

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
            ($($arg::Accepts,)+): Combine,
        {
            type Accepts = <($($arg::Accepts,)+) as Combine>::All;
            const READS: &'static [Reads] = &[$($arg::READS),+];
            const QUESTIONS: QuestionFacts = QuestionFacts::All(&[$($arg::QUESTIONS),+]);

            #[inline]
            fn take(task: &'a Task<S, C>) -> std::result::Result<Self, NodeError> {
                Ok(($($arg::extract(task)?,)+))
            }
        }
    };
}

/// Combines the payload markers of all arguments of a node.
pub trait Combine {
    /// The marker for the payload that the arguments together need.
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

/// A type that a node can return: an update, a view that owns its fields, a [`Command`], `()`, or a `Result` or
/// `Option` of one of these.
#[diagnostic::on_unimplemented(
    message = "a node of a graph over `{S}` cannot return a `{Self}`",
    label = "returns a `{Self}`",
    note = "a node returns an update (`{S}::update()…`), a `#[derive(View)]` of `{S}` that owns its fields, a `Command`, `()`, or a \
            `Result` of these whose error converts into `NodeError`"
)]
pub trait IntoOutput<S: Values> {
    /// The channels that a return value of this type writes. Defaults to unknown.
    const WRITES: WriteClaim = WriteClaim::UNKNOWN;

    /// Converts the return value to the output of the node.
    fn into_output(self) -> NodeResult<S>;
}

impl<S: Values> IntoOutput<S> for () {
    const WRITES: WriteClaim = WriteClaim::NOTHING;

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
                "the node's command answers a question, but only the input of a run can do so: to ask a question, use `run.interrupt`",
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

/// The output of a node that may write nothing: `None` writes nothing.
impl<S: Values, T: IntoOutput<S>> IntoOutput<S> for Option<T> {
    const WRITES: WriteClaim = T::WRITES.optional();

    fn into_output(self) -> NodeResult<S> {
        self.map_or_else(|| Ok(Output::default()), IntoOutput::into_output)
    }
}

impl<S: Values, T: IntoOutput<S>, E: IntoNodeError> IntoOutput<S> for std::result::Result<T, E> {
    const WRITES: WriteClaim = T::WRITES;

    fn into_output(self) -> NodeResult<S> {
        self.map_err(IntoNodeError::into_node_error)?.into_output()
    }
}

/// A future that a node function returns.
#[diagnostic::on_unimplemented(
    message = "a node must be an `async fn`, and this one returns a `{Self}`",
    label = "not async",
    note = "write `async fn`, or wrap the value: `async move {{ … }}`"
)]
pub trait NodeFuture<S: Values>: Future {
    /// The channels that the output of the future writes.
    const WRITES: WriteClaim;

    /// Converts the output of the future to the output of the node.
    fn output(output: Self::Output) -> NodeResult<S>;
}

impl<S: Values, F: Future> NodeFuture<S> for F
where
    F::Output: IntoOutput<S>,
{
    const WRITES: WriteClaim = <F::Output as IntoOutput<S>>::WRITES;

    fn output(output: F::Output) -> NodeResult<S> {
        output.into_output()
    }
}

/// A node that plain edges, arms and joins can lead to.
#[diagnostic::on_unimplemented(
    message = "a plain edge leads to a node that takes a `Sent<…>` or a `Failure`",
    label = "reached by a plain edge, which carries nothing",
    note = "reach it with `for item in items {{ node(item) }}` or a Send, or take `Option<Sent<…>>`"
)]
pub trait TakesPlain {}
impl TakesPlain for NoPayload {}
impl<T> TakesPlain for OptionalPayload<T> {}

/// A node that a Send with a payload of type `T` can lead to.
#[diagnostic::on_unimplemented(
    message = "this node is sent a `{T}`, which it does not take",
    label = "cannot take a `{T}`",
    note = "the node must take `Sent<{T}>` (or `Option<Sent<{T}>>`); a payload owns its data, so send clones of references, as \
            `for item in state.items` and `.iter().cloned()` do"
)]
pub trait TakesSent<T> {}
impl<T> TakesSent<T> for RequiredPayload<T> {}
impl<T> TakesSent<T> for OptionalPayload<T> {}

/// The tuple of the arguments of a node. `F` is the node: a function or a subgraph.
pub trait Attach<S: Values, C, F> {
    /// Compiles the subgraph. Returns `None` if the node is a function.
    fn child() -> Option<Child<S, C>>;
    /// The properties of the subgraph. `None` if the node is a function.
    const NESTED: Option<&'static NestedFacts>;
}

/// The properties of a graph that is a node of another graph.
#[derive(Debug)]
pub struct NestedFacts {
    pub(super) spec: fn() -> &'static hier_spec::GraphSpec,
    /// The number of nested levels of graphs. The compiler reports a graph that contains itself.
    pub(super) depth: usize,
    pub(super) asks_model: bool,
    pub(super) flow: GraphFlow,
    /// The trust of the graph, if its conversation is that of the graph around it.
    pub(super) trust: hier_spec::trust::GraphTrust,
}
