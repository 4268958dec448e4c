use std::sync::Arc;

use futures_core::future::BoxFuture;
use tokio::runtime::Handle;
use tokio_util::task::TaskTracker;
use tracing::Instrument;

use super::{NodeHeartbeat, Run};
use crate::config::Config;

impl<C> Run<C> {
    /// Runs `work` and returns its result. Use this method if `work` waits for something outside the process, such as a
    /// job of another service. If the run gives up the task during this wait, the engine drops `work` and runs
    /// `cleanup`, for example to cancel the job.
    ///
    /// The run returns only after `cleanup` has ended, so give `cleanup` a time limit. The engine runs `cleanup` in
    /// these cases:
    ///
    /// * The run is cancelled.
    /// * The node times out, and the engine does not retry it.
    /// * The future of a run without a checkpointer is dropped.
    ///
    /// The engine does not run `cleanup` if another run can resume the task: if the process ends, if its worker stops,
    /// if another process takes over the thread, or if the future of a run with a checkpointer is dropped.
    ///
    /// If a background subagent calls this method, *the run* and *the node* in these cases are those of the supervisor
    /// that started the subagent. In addition, `cleanup` runs if the supervisor cancels the subagent, or if the
    /// supervisor's turn ends.
    ///
    /// ```
    /// # use hier_core::{NodeError, Run};
    /// # async fn start_job() -> String { String::new() }
    /// # async fn end_of_job(_: &str) -> Result<String, NodeError> { Ok(String::new()) }
    /// # async fn cancel_job(_: String) {}
    /// async fn printed(run: &Run) -> Result<String, NodeError> {
    ///     let job: String = run.step("start", async || Ok(start_job().await)).await?;
    ///     run.with_cleanup(end_of_job(&job), cancel_job(job.clone())).await
    /// }
    /// ```
    pub async fn with_cleanup<T>(
        &self,
        work: impl Future<Output = T>,
        cleanup: impl Future<Output = ()> + Send + 'static,
    ) -> T {
        let mut guard = CleanupGuard {
            config: self.shared.config.clone(),
            is_durable: self.is_durable() && !self.shared.config.ends_with_outer,
            runtime: Handle::try_current().ok(),
            heartbeat: self.any_heartbeat().cloned(),
            tracker: self.shared.tracker.clone(),
            cleanup: Some(Box::pin(cleanup)),
        };
        let ended = work.await;
        guard.cleanup = None;
        ended
    }
}

/// Starts the cleanup when this guard is dropped, if the task is given up.
struct CleanupGuard {
    config: Arc<Config>,
    is_durable: bool,
    /// The runtime of the task. A guard may be dropped outside of the runtime.
    runtime: Option<Handle>,
    heartbeat: Option<Arc<NodeHeartbeat>>,
    tracker: TaskTracker,
    /// None once the work has ended.
    cleanup: Option<BoxFuture<'static, ()>>,
}

impl CleanupGuard {
    fn is_abandoned(&self) -> bool {
        let timed_out = self.heartbeat.as_ref().and_then(|heartbeat| heartbeat.gave_up());
        self.config.is_abandoned() || timed_out.unwrap_or(!self.is_durable)
    }
}

impl Drop for CleanupGuard {
    fn drop(&mut self) {
        let Some(cleanup) = self.cleanup.take() else { return };
        if let Some(runtime) = &self.runtime
            && self.is_abandoned()
        {
            runtime.spawn(self.tracker.track_future(cleanup.in_current_span()));
        }
    }
}
