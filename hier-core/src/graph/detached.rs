use std::sync::Arc;

use super::CompiledGraph;
use super::request::{GraphRequest, NeedsContext, RequestKind};
use crate::checkpoint::BoxFuture;
use crate::config::Config;
use crate::engine::Detached;
use crate::engine::program::{Attachments, GraphOutput, Program};
use crate::error::RunError;
use crate::state::Values;

/// A request that continues the detached subagents of a thread. [`CompiledGraph::continue_detached`] returns it.
pub struct ContinueDetached<S: Values, C> {
    program: Arc<Program<S, C>>,
    attached: Attachments,
    running: Option<BoxFuture<'static, Result<(), RunError>>>,
}

impl<S, C, I, O> CompiledGraph<S, C, I, O>
where
    S: Values,
    C: Send + Sync + 'static,
    O: GraphOutput<S>,
{
    /// Returns a request that continues the detached subagents of an agent on this thread. Await the request to run
    /// these subagents until each of them has ended or asks a question.
    ///
    /// A detached subagent (`detached: true`) continues after the turn of its agent. The agent collects the report of
    /// the subagent in a later turn. A worker continues such subagents by itself. Without a worker, spawn this request
    /// after each turn, and when the process starts.
    ///
    /// If another process already executes a subagent, the request waits until that process no longer executes it. If
    /// that process dies, the request continues the subagent itself when the lease of the dead process has expired. If
    /// the thread has no detached subagents, the request returns at once.
    ///
    /// Cancel safety: dropping the future stops the subagents, which can be continued later.
    ///
    /// # Errors
    ///
    /// Fails without a checkpointer, or if the thread cannot be read or written. Fails with [`RunError::Cancelled`] if
    /// the token of [`Config::cancel`](crate::Config::cancel) is cancelled. The failure of a subagent is not an error
    /// of the request: the agent of the subagent receives the reason.
    pub fn continue_detached(
        &self,
        thread: impl Into<String>,
    ) -> GraphRequest<ContinueDetached<S, C>, NeedsContext<C>> {
        let (program, attached) = (self.inner.clone(), self.attached.clone());
        GraphRequest::new(ContinueDetached { program, attached, running: None }).thread(thread)
    }
}

impl<S: Values, C: Send + Sync + 'static> RequestKind<C> for ContinueDetached<S, C> {
    type Output = Result<(), RunError>;

    fn started(&mut self, options: impl FnOnce() -> (Arc<Config>, Arc<C>)) -> &mut BoxFuture<'static, Self::Output> {
        let Self { program, attached, running } = self;
        running.get_or_insert_with(|| {
            let (config, context) = options();
            let (program, attached) = (program.clone(), attached.clone());
            let detached = Detached { program, attached, config, context, emitter: None };
            Box::pin(async move { detached.drive_all().await })
        })
    }
}
