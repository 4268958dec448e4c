//! The background runs of a run. Each is a run of a graph on another thread, and is driven only while the call that
//! started it lasts.
//!
//! When the call ends, its background runs stop as if the process had been killed. A later call continues them from
//! their checkpoints. [`BackgroundRuns`] holds the results as `Any`, because it serves graphs of all types.

use std::any::Any;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, OnceLock};

use futures_core::future::BoxFuture;
use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tokio_util::task::{AbortOnDropHandle, TaskTracker};
use tracing::Instrument;

use crate::checkpoint::MemorySaver;
use crate::engine::log::saver::Saver;
use crate::error::NodeError;
use crate::store::Store;
use crate::sync::{Mutex, lock};

#[derive(Clone, Default)]
pub(crate) struct Attachments {
    pub(crate) saver: Option<Saver>,
    pub(crate) store: Option<Arc<dyn Store>>,
}

/// The result of a background run. The caller that started the run passed a function `end`, which made this value from
/// the outcome.
pub type BackgroundEnd = Arc<dyn Any + Send + Sync>;

/// The background runs that a run and its subgraphs have started in this process. Each background run has its own
/// thread, whose id identifies the run.
#[derive(Default)]
pub struct BackgroundRuns {
    attached: Attachments,
    /// The saver of the background runs, if the graph has no saver.
    memory: OnceLock<Saver>,
    runs: Mutex<BTreeMap<Arc<str>, BackgroundRun>>,
    stopping: Mutex<Vec<BackgroundRun>>,
}

/// A background run that this process drives.
struct BackgroundRun {
    /// The namespace of the graph that started the run.
    namespace: Vec<String>,
    stop: CancellationToken,
    /// Cancelled before `stop` if a later call will continue the run.
    pause: CancellationToken,
    end: watch::Receiver<Option<BackgroundEnd>>,
    /// Aborts the run if the outer run is dropped.
    _task: AbortOnDropHandle<()>,
}

pub(crate) struct BackgroundWork {
    pub(crate) thread: Arc<str>,
    pub(crate) namespace: Vec<String>,
    pub(crate) stop: CancellationToken,
    pub(crate) pause: CancellationToken,
    pub(crate) work: BoxFuture<'static, BackgroundEnd>,
}

impl fmt::Debug for BackgroundRuns {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BackgroundRuns").field("threads", &lock(&self.runs).keys()).finish_non_exhaustive()
    }
}

impl BackgroundRuns {
    pub(crate) fn new(attached: Attachments) -> Self {
        Self { attached, ..Self::default() }
    }

    pub(crate) fn attachments(&self) -> Attachments {
        let memory = || self.memory.get_or_init(|| Saver::new(Arc::new(MemorySaver::new()))).clone();
        let saver = self.attached.saver.clone().unwrap_or_else(memory);
        Attachments { saver: Some(saver), ..self.attached.clone() }
    }

    /// Returns true if the graph has a saver, so that later runs can continue the background runs.
    pub(crate) fn are_durable(&self) -> bool {
        self.attached.saver.is_some()
    }

    /// Returns the saver for the threads of the background runs: the graph's saver or, if the graph has none, a saver
    /// in memory. The result is always `Some`.
    pub fn saver(&self) -> Option<Saver> {
        self.attachments().saver
    }

    /// Drives a run, unless this process already drives a run of the same thread.
    pub(crate) fn start(&self, run: BackgroundWork, tracker: &TaskTracker) -> Result<(), NodeError> {
        let BackgroundWork { thread, namespace, stop, pause, work } = run;
        let runtime =
            Handle::try_current().map_err(|_| NodeError::permanent("a background run needs a tokio runtime"))?;
        let mut runs = lock(&self.runs);
        if runs.contains_key(&thread) {
            return Ok(());
        }
        let (sender, end) = watch::channel(None);
        let driven = async move {
            sender.send_replace(Some(work.await));
        };
        let task = AbortOnDropHandle::new(runtime.spawn(tracker.track_future(driven.in_current_span())));
        runs.insert(thread, BackgroundRun { namespace, stop, pause, end, _task: task });
        Ok(())
    }

    /// Returns true if this process executes a background run on the thread, or has executed one to its end.
    pub fn has(&self, thread: &str) -> bool {
        lock(&self.runs).contains_key(thread)
    }

    /// Waits until the background run on the thread has ended, and returns its result. Returns `None` if this process
    /// has no such run, or if the run was aborted.
    pub async fn end(&self, thread: &str) -> Option<BackgroundEnd> {
        let mut end = lock(&self.runs).get(thread)?.end.clone();
        end.wait_for(Option::is_some).await.ok()?.clone()
    }

    /// Returns the result of the background run on the thread. Returns `None` if this process has no such run, or if
    /// the run has not ended.
    pub fn ended(&self, thread: &str) -> Option<BackgroundEnd> {
        lock(&self.runs).get(thread)?.end.borrow().clone()
    }

    /// Stops the background run on the thread, does not wait for its end, and removes it. No later run continues it.
    /// Its checkpoints stay stored.
    pub fn stop(&self, thread: &str) {
        if let Some(run) = lock(&self.runs).remove(thread) {
            run.stop();
            lock(&self.stopping).push(run);
        }
    }

    /// Stops the background run on the thread, and waits until its last task has ended. No later run continues it.
    pub async fn cancel(&self, thread: &str) {
        self.stopped(thread, BackgroundRun::stop).await;
    }

    /// Pauses the background run on the thread, and waits until its last task has ended. A later run can continue it.
    pub async fn paused(&self, thread: &str) {
        self.stopped(thread, BackgroundRun::pause).await;
    }

    /// Stops the run of a thread. Forgets the run only after its last task has ended, so that several callers can wait
    /// for the same end.
    async fn stopped(&self, thread: &str, stop: fn(&BackgroundRun)) {
        let Some(mut end) = lock(&self.runs).get(thread).map(|run| {
            stop(run);
            run.end.clone()
        }) else {
            return;
        };
        // The result of a stopped run is not needed. The channel closes without a result if the task was aborted.
        let _ = end.wait_for(Option::is_some).await;
        // Another caller may have started the next run of the thread.
        let mut runs = lock(&self.runs);
        if runs.get(thread).is_some_and(|run| run.end.same_channel(&end)) {
            runs.remove(thread);
        }
    }

    /// Stops the runs that this graph or its subgraphs have started. A later call continues them, unless the graph is
    /// given up.
    pub(crate) fn stop_within(&self, namespace: &[String], is_given_up: bool) {
        let within = |_: &Arc<str>, run: &mut BackgroundRun| run.namespace.starts_with(namespace);
        let stopped: Vec<BackgroundRun> = lock(&self.runs).extract_if(.., within).map(|(_, run)| run).collect();
        stopped.iter().for_each(if is_given_up { BackgroundRun::stop } else { BackgroundRun::pause });
        let mut stopping = lock(&self.stopping);
        // The task of a run drops its sender when it ends.
        stopping.retain(|run| run.end.has_changed().is_ok());
        stopping.extend(stopped);
    }
}

impl BackgroundRun {
    fn stop(&self) {
        self.stop.cancel();
    }

    /// Stops the run so that a later call continues it. A run that was already cancelled is not continued.
    fn pause(&self) {
        if !self.stop.is_cancelled() {
            self.pause.cancel();
        }
        self.stop();
    }
}

#[cfg(test)]
#[path = "../../../tests/unit/background.rs"]
mod tests;
