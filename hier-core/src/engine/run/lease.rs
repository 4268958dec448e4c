//! Holds the lease of a thread during a run.

use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::task::coop::unconstrained;

use crate::checkpoint::WhenRunning;
use crate::config::Config;
use crate::engine::durable::{attempts, check, due, line, recall};
use crate::engine::log::committer::Committer;
use crate::engine::log::renewal::Renewal;
use crate::engine::log::saver::Saver;
use crate::engine::log::task_log::TaskLog;
use crate::engine::program::{GraphContext, Input, Program};
use crate::engine::run::runner::{GraphEnd, GraphRunner};
use crate::error::RunError;
use crate::state::Values;

/// The configuration of a durable run. A configuration that addresses a subgraph is converted to one of the root graph.
pub(super) struct RootConfig {
    pub(super) config: Arc<Config>,
    /// The original configuration, if it addresses a subgraph.
    addressed: Option<Arc<Config>>,
}

impl RootConfig {
    pub(super) async fn resolve<S: Values>(
        graph: &str,
        saver: Option<&Saver>,
        config: Arc<Config>,
        input: &Input<S>,
    ) -> Result<Self, RunError> {
        match saver.filter(|_| !config.namespace.is_empty()) {
            Some(saver) => {
                let root = Box::pin(line::root_config(graph, saver, &config, input)).await?;
                Ok(Self { config: Arc::new(root), addressed: Some(config) })
            }
            None => Ok(Self { config, addressed: None }),
        }
    }
}

/// Checks the input, and claims the thread for the run.
pub(super) async fn claim_for<S: Values, C: GraphContext>(
    graph: &Program<S, C>,
    saver: &Saver,
    root: &RootConfig,
    input: &Input<S>,
) -> Result<Arc<Committer>, RunError> {
    check::check_input(graph, saver, &root.config, input).await?;
    // A stale command must not end a run that is in progress.
    let when_running = match input {
        Input::New(_) | Input::Whole(_) | Input::Continue | Input::Enter => WhenRunning::TakeOver,
        Input::Command(_) => WhenRunning::Reject,
    };
    let committer = claim(saver, &root.config, when_running, graph.plan.graph()).await?;
    // Checks again under the lease. Before the claim, another run may have moved the thread away.
    if let Some(addressed) = &root.addressed
        && let Err(refused) = line::root_config(graph.plan.graph(), &committer.saver, addressed, input).await
    {
        committer.release().await;
        return Err(refused);
    }
    Ok(committer)
}

/// Claims the thread of the configuration. `when_running` is the default for a configuration that does not decide what
/// happens to a run in progress.
pub(crate) async fn claim(
    saver: &Saver,
    config: &Config,
    when_running: WhenRunning,
    graph: &str,
) -> Result<Arc<Committer>, RunError> {
    let thread = config.thread_id().ok_or_else(|| RunError::NoThread { graph: graph.to_owned() })?;
    if saver.leases_expire() && Handle::try_current().is_ok() && !has_timers() {
        return Err(RunError::NoTimers { graph: graph.to_owned() });
    }
    let lease = saver.acquire(thread, config.claim(when_running)).await;
    let lease = lease.map_err(|error| RunError::Saver { graph: graph.to_owned(), error })?;
    let driven = lease.driven;
    let committer = Committer::new(saver.clone(), lease, config.durability, graph);
    if driven {
        committer.note_waiting();
    }
    Ok(Arc::new(committer))
}

/// Returns true if the runtime has timers. The only way to find out is to use a timer.
fn has_timers() -> bool {
    std::panic::catch_unwind(|| drop(tokio::time::sleep(Duration::ZERO))).is_ok()
}

pub(super) struct ThreadLease {
    /// The log of the root graph.
    pub(super) log: Arc<TaskLog>,
    renewal: Option<Renewal>,
}

impl ThreadLease {
    pub(super) async fn hold(committer: Arc<Committer>) -> Self {
        let renewal = Renewal::start(&committer).await;
        Self { log: Arc::new(TaskLog::new(committer, "".into())), renewal }
    }

    /// Runs the work until it ends or the lease is lost.
    pub(super) async fn until_lost<T>(
        &mut self,
        graph: &str,
        work: impl Future<Output = Result<T, RunError>>,
    ) -> Result<T, RunError> {
        let Some(renewal) = &mut self.renewal else { return work.await };
        let graph = || graph.to_owned();
        tokio::select! {
            biased;
            ended = work => ended,
            // Work that never waits uses up the budget that tokio gives to its task. Without a budget, this future
            // still notices the loss.
            lost = unconstrained(renewal.lost()) => Err(match lost {
                Ok(error) => RunError::Saver { graph: graph(), error },
                Err(_) => RunError::NoRuntime { graph: graph() },
            }),
        }
    }

    /// Stores the remaining records, and releases the lease.
    pub(super) async fn close<S, C>(
        self,
        runner: &mut GraphRunner<S, C>,
        ended: Result<GraphEnd, RunError>,
    ) -> Result<GraphEnd, RunError>
    where
        S: Values,
        C: Send + Sync + 'static,
    {
        let committer = &*self.log.committer;
        let held = runner.store_held().await;
        let flushed = committer.flush().await.map_err(|error| RunError::Saver { graph: runner.graph_name(), error });
        if let Some(renewal) = self.renewal {
            renewal.end().await;
        }
        let stored = held.and(flushed);
        let checkpoint = runner.journal.as_ref().and_then(|journal| journal.base);
        // The record is stored before `due::settle` reads the thread. A thread that has failed is not due.
        if let (true, Some(checkpoint), Err(error)) = (runner.task.run.shared.config.is_detached, checkpoint, &ended) {
            attempts::record_failure(committer, checkpoint, error).await;
        }
        // If storing failed, the thread stays due, as if the process had been killed.
        let is_lost = matches!(ended, Err(RunError::Saver { .. })) || stored.is_err();
        if committer.has_waited() && !is_lost {
            let now = runner.task.run.shared.config.now();
            // If this fails, the thread is due too early, but never too late.
            if let Err(error) = due::settle(committer, &runner.task.graph.renamed, now).await {
                tracing::debug!(thread = %committer.lease.thread, %error, "failed to store when the thread is due next: a \
                    sweeper or worker may check it too early");
            }
        }
        if let (Ok(_), Ok(()), Some(journal)) = (&ended, &stored, &runner.journal) {
            recall::remember(journal, &runner.position, &*runner.task.state);
        }
        committer.release().await;
        let ended = ended?;
        stored.map(|()| ended)
    }
}
