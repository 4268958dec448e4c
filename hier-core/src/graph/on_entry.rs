//! The functions `on_entry` and `on_exit` of a graph.

use futures_core::future::BoxFuture;

use crate::graph::Task;
use crate::graph::handler::{Arguments, IntoOutput, NoPayload, Node, NodeResult, OptionalPayload};
use crate::graph::site::Site;
use crate::question::QuestionFacts;
use crate::state::Values;

/// The call of a hook, and the declared questions that the hook can ask.
type BoundHook<'a, S, C, F> = (fn(F, &'a Task<S, C>) -> BoxFuture<'a, NodeResult<S>>, QuestionFacts);

impl<S: Values, C> Site<S, C> {
    /// Checks that the function can be the `on_entry` or `on_exit` function of the graph. All uses of the function begin
    /// with this call, so the compiler reports a wrong function only once.
    pub const fn hook<'a, F, Args, M>(&self, _function: &F) -> BoundHook<'a, S, C, F>
    where
        F: Node<Args>,
        Args: Arguments<'a, S, C, Accepts: FitsHook>,
        F::Out: HookOutput<'a, S, M>,
    {
        let call = |function: F, task| match Args::take(task) {
            Ok(args) => function.call(args).output(),
            Err(error) => Box::pin(std::future::ready(Err(error))) as BoxFuture<'a, NodeResult<S>>,
        };
        (call, Args::QUESTIONS)
    }
}

/// A payload marker of functions that can be `on_entry` or `on_exit`. Such a function must not require the payload of a
/// Send or the error of a node.
#[diagnostic::on_unimplemented(
    message = "`on_entry` and `on_exit` cannot take a `Sent<…>` or a `Failure`",
    label = "takes a `Sent<…>` or a `Failure`",
    note = "take `&State`, a view or `&Run<…>`; an item and an error exist only in the task of a node"
)]
pub trait FitsHook {}
impl FitsHook for NoPayload {}
impl<T> FitsHook for OptionalPayload<T> {}

/// A value that `on_entry` and `on_exit` functions can return: the output of a node, or a future of it.
#[diagnostic::on_unimplemented(
    message = "`on_entry` and `on_exit` cannot return `{Self}`",
    label = "returns `{Self}`",
    note = "return an update of `{S}`, `()`, a `Result` of these, or be an `async fn` of one"
)]
pub trait HookOutput<'a, S: Values, M> {
    /// Returns a future of the function's writes.
    fn output(self) -> BoxFuture<'a, NodeResult<S>>;
}

/// Marks the return value of a synchronous function.
#[derive(Debug)]
pub struct AtOnce;
/// Marks the return value of an asynchronous function.
#[derive(Debug)]
pub struct Later;

impl<'a, S: Values, T: IntoOutput<S>> HookOutput<'a, S, AtOnce> for T {
    fn output(self) -> BoxFuture<'a, NodeResult<S>> {
        Box::pin(std::future::ready(self.into_output()))
    }
}

impl<'a, S: Values, F> HookOutput<'a, S, Later> for F
where
    F: Future + Send + 'a,
    F::Output: IntoOutput<S>,
{
    fn output(self) -> BoxFuture<'a, NodeResult<S>> {
        Box::pin(async move { self.await.into_output() })
    }
}
