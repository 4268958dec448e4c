use super::Graph;
use super::handler::{Arguments, BoxFuture, Node, NodeFuture, SubgraphArgs};
use crate::engine::program::{Child, NodeResult, Task};
use crate::error::NodeError;
use crate::state::Values;

impl<S: Values, C> Task<S, C> {
    /// Calls a node function with arguments from this task. With this method, a closure in a
    /// [`GraphBuilder`](super::GraphBuilder) can call a function that is written as a node for `graph!`:
    /// `|task| task.call(assess)`.
    pub fn call<'a, F, Args>(&'a self, function: F) -> BoxFuture<'a, NodeResult<S>>
    where
        F: Node<Args>,
        Args: Arguments<'a, S, C>,
        F::Out: NodeFuture<S> + Send + 'a,
    {
        boxed(Args::take(self).map(|args| function.call(args)))
    }
}

#[inline]
pub(super) fn boxed<'a, S, F>(called: Result<F, NodeError>) -> BoxFuture<'a, NodeResult<S>>
where
    S: Values,
    F: NodeFuture<S> + Send + 'a,
{
    match called {
        Ok(future) => Box::pin(finish::<S, F>(future)),
        Err(error) => Box::pin(std::future::ready(Err(error))),
    }
}

async fn finish<S: Values, F: NodeFuture<S>>(future: F) -> NodeResult<S> {
    F::output(future.await)
}

/// Runs the graph that was attached when the outer graph was compiled.
impl<'a, S: Values, C: Send + Sync + 'static, G: Graph> Node<SubgraphArgs<'a, S, C, G>> for G {
    type Out = BoxFuture<'a, NodeResult<S>>;

    fn call(self, args: SubgraphArgs<'a, S, C, G>) -> Self::Out {
        let task = args.task;
        let child: Option<&Child<S, C>> = task.graph.child(task.run.key.node);
        if let Some(child) = child {
            return child.run(task);
        }
        let error = NodeError::permanent(format!(
            "the graph `{}` is not attached to this node: name the graph as the node when you build the outer graph",
            G::NAME
        ));
        Box::pin(std::future::ready(Err(error)))
    }
}
