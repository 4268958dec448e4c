//! Methods that read a thread, and change it.

use super::CompiledGraph;
use crate::checkpoint::{ListQuery, WhenRunning};
use crate::config::Config;
use crate::engine::Saver;
use crate::engine::program::GraphOutput;
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

    /// The state of the thread that the configuration names: as it is, or, if the configuration addresses a checkpoint, as
    /// it was ([`StateSnapshot`] tells the two apart). An unknown thread has the initial state and no checkpoint; an unknown
    /// checkpoint is an error, [`RunError::NoCheckpoint`], unless the graph was built `.lenient()`.
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
    pub async fn state(&self, thread: impl Into<Config>) -> Result<StateSnapshot<S>, RunError> {
        let config = thread.into();
        engine::snapshot(&self.inner, self.saver("read")?, &config).await
    }

    /// All states of the thread, newest first: the [`history`](Self::history) without a query.
    pub async fn states(&self, thread: impl Into<Config>) -> Result<Vec<StateSnapshot<S>>, RunError> {
        self.history(thread, ListQuery::default()).await
    }

    /// The thread's history, newest first: the state at each checkpoint, and what came of each step. The query's filter,
    /// `before` and `limit` restrict it.
    pub async fn history(
        &self,
        thread: impl Into<Config>,
        query: ListQuery,
    ) -> Result<Vec<StateSnapshot<S>>, RunError> {
        let config = thread.into();
        engine::history(&self.inner, self.saver("read")?, &config, query).await
    }

    /// Changes the thread's state from outside its runs, as if a node had returned the update, and returns the
    /// configuration that addresses the new checkpoint.
    ///
    /// The node is the one that ran last, unless the update names one; its edges are followed. Where it is ambiguous which ran last
    /// (several in one step, or one that an edge and a join set off at once) the update has to name it. What else was to run next is
    /// dropped, with what tasks of the open step have done (as in the reference). If the configuration addresses a checkpoint, the
    /// new one follows that, as another branch.
    ///
    /// A thread that is being run is not updated ([`SaverError::Busy`](crate::checkpoint::SaverError::Busy)), unless
    /// [`Config::when_running`] says otherwise.
    pub async fn update_state(&self, thread: impl Into<Config>, update: StateUpdate<S>) -> Result<Config, RunError> {
        self.bulk_update_state(thread, [[update]]).await
    }

    /// The same with several supersteps, each of several updates that are applied at once. Each of several names its node.
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
        let saver = self.saver("update")?;
        engine::check_updates(&self.inner, saver, &config, &supersteps).await?;
        let committer = engine::claim(saver, &config, WhenRunning::Reject, self.inner.plan.graph()).await?;
        let revised = engine::revise(&self.inner, &committer, &config, supersteps).await;
        committer.release().await;
        revised
    }
}
