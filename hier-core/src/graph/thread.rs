use super::CompiledGraph;
use crate::checkpoint::ListQuery;
use crate::config::Config;
use crate::engine::Saver;
use crate::engine::program::{GraphOutput, SecretChannel};
use crate::engine::{self, StateSnapshot, StateUpdate};
use crate::error::RunError;
use crate::state::Values;

impl<S, C, I, O> CompiledGraph<S, C, I, O>
where
    S: Values,
    C: Send + Sync + 'static,
    O: GraphOutput<S>,
{
    pub(super) fn saver(&self, what: &'static str) -> Result<&Saver, RunError> {
        let missing = || RunError::NoCheckpointer { graph: self.inner.plan.graph().to_owned(), what };
        self.attached.saver.as_ref().ok_or_else(missing)
    }

    /// Returns the state of a thread. If the configuration selects a checkpoint, returns the state at this checkpoint,
    /// and otherwise the current state. An unknown thread has the initial state and no checkpoint.
    ///
    /// ```
    /// # use hier_core::prelude::*;
    /// # use hier_core::checkpoint::MemorySaver;
    /// # #[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
    /// # struct Filing { accepted: bool }
    /// # async fn assess() {}
    /// # graph! { Review<Filing> = Graph { nodes: [assess], edges: [START >> assess >> END] } }
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> hier_core::Result<()> {
    /// let review = Review::compile().checkpointer(MemorySaver::default());
    /// review.invoke(Filing::update().accepted(true)).thread("case-17").await?;
    /// let state = review.state("case-17").await?;
    /// assert!(state.values.accepted && state.is_finished());
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// Fails with [`RunError::NoCheckpoint`] for an unknown checkpoint, unless the graph was built with
    /// [`GraphBuilder::lenient`](super::GraphBuilder::lenient).
    pub async fn state(&self, thread: impl Into<Config>) -> Result<StateSnapshot<S>, RunError> {
        let config = thread.into();
        engine::snapshot(&self.inner, self.saver("read threads")?, &config).await
    }

    /// Returns the states at all checkpoints of the thread, newest first. See [`history`](Self::history).
    pub async fn states(&self, thread: impl Into<Config>) -> Result<Vec<StateSnapshot<S>>, RunError> {
        self.history(thread, ListQuery::default()).await
    }

    /// Returns the states at the checkpoints of a thread, newest first. Each snapshot contains the state at its
    /// checkpoint, and the tasks of the superstep that followed this checkpoint. The fields `filter`, `before` and
    /// `limit` of the query restrict the list.
    pub async fn history(
        &self,
        thread: impl Into<Config>,
        query: ListQuery,
    ) -> Result<Vec<StateSnapshot<S>>, RunError> {
        let config = thread.into();
        engine::history(&self.inner, self.saver("read threads")?, &config, query).await
    }

    /// Updates the state of a thread from outside its runs, as if a node had returned the update. Returns the
    /// configuration that selects the new checkpoint.
    ///
    /// The engine attributes the update to the node that ran last, and follows the edges of this node. To attribute the
    /// update to another node, use [`StateUpdate::as_node`](crate::StateUpdate::as_node). You must name the node with
    /// `as_node` if several nodes ran in the last superstep. This also applies if only one node ran, but several edges
    /// had triggered it at once.
    ///
    /// As in LangGraph, the update drops the superstep in progress, including the results of tasks that have ended. If
    /// the configuration selects an earlier checkpoint, the update starts a new branch of the history at this
    /// checkpoint.
    ///
    /// Cancel safety: if the future is dropped, the update may or may not be stored.
    ///
    /// # Errors
    ///
    /// Fails with [`SaverError::Busy`](crate::checkpoint::SaverError::Busy) if a run holds the thread. To take over the
    /// thread or to wait for it instead, set [`Config::when_running`].
    pub async fn update_state(&self, thread: impl Into<Config>, update: StateUpdate<S>) -> Result<Config, RunError> {
        self.bulk_update_state(thread, [[update]]).await
    }

    /// Updates the state of a thread like [`update_state`](Self::update_state), but in several supersteps: one for each
    /// list of updates. If a list has several updates, each of them must name its node with
    /// [`StateUpdate::as_node`](crate::StateUpdate::as_node). Returns the configuration that selects the last new
    /// checkpoint.
    pub async fn bulk_update_state<U>(
        &self,
        thread: impl Into<Config>,
        supersteps: impl IntoIterator<Item = U>,
    ) -> Result<Config, RunError>
    where
        U: IntoIterator<Item = StateUpdate<S>>,
    {
        let config = thread.into();
        let supersteps: Vec<Vec<_>> = supersteps.into_iter().map(|updates| updates.into_iter().collect()).collect();
        let saver = self.saver("update threads")?;
        SecretChannel::check(self.inner.secret_channels(), saver)?;
        engine::update_thread(&self.inner, saver, &config, supersteps).await
    }
}
