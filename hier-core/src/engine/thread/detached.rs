//! Continues detached background runs without a run of the graph that started them.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use serde_json::Value;
use tokio_util::task::TaskTracker;

use crate::checkpoint::background;
use crate::config::Config;
use crate::engine::program::{
    Attachments, BackgroundRuns, DetachedEnd, DetachedRuns, GraphContext, Program, Run, RunShared, Task, TaskKey,
};
use crate::engine::stream::emitter::{Emitter, EventSink};
use crate::engine::stream::outcome::{Interrupted, Outcome};
use crate::engine::thread::snapshot::snapshot;
use crate::error::{NodeErrorKind, RunError};
use crate::state::Values;

/// Time after which a run is tried again, if another process drives it.
const AGAIN: Duration = Duration::from_secs(1);

/// Interval of the checks if the graph has cancelled the run.
const LOOK: Duration = Duration::from_secs(5);

/// The detached runs of a thread that is not running.
pub(crate) struct Detached<S: Values, C> {
    pub(crate) program: Arc<Program<S, C>>,
    pub(crate) attached: Attachments,
    /// The configuration of the thread that started the detached runs.
    pub(crate) config: Arc<Config>,
    pub(crate) context: Arc<C>,
    pub(crate) emitter: Option<Arc<Emitter<S>>>,
}

/// Returns the threads of the detached runs of a thread. Leaves out runs whose results were collected.
pub(crate) async fn detached_threads<S: Values, C: GraphContext>(
    program: &Program<S, C>,
    attached: &Attachments,
    config: &Config,
) -> Result<Vec<String>, RunError> {
    let (Some(runs), Some(thread)) = (&program.hooks.detached, config.thread_id()) else { return Ok(Vec::new()) };
    let saver = attached.saver.as_ref().ok_or_else(|| no_checkpointer(program))?;
    let state = snapshot(program, saver, config).await?.values;
    Ok(runs.names(&state).iter().map(|name| background::thread_of(thread, name)).collect())
}

fn no_checkpointer<S: Values, C>(program: &Program<S, C>) -> RunError {
    RunError::NoCheckpointer { graph: program.plan.graph().to_owned(), what: "continue detached subagents" }
}

impl<S: Values, C: GraphContext> Detached<S, C> {
    /// Drives the runs until each has ended or waits for answers.
    pub(crate) async fn drive_all(&self) -> Result<(), RunError> {
        let threads = detached_threads(&self.program, &self.attached, &self.config).await?;
        let ended = join_all(threads.iter().map(|thread| self.drive(thread))).await;
        ended.into_iter().try_for_each(|ended| ended.map(|_| ()))
    }

    /// Drives the run on this thread until it has ended or waits for answers. Returns `None` if the graph no longer has
    /// such a run.
    pub(crate) async fn drive(&self, thread: &str) -> Result<Option<Outcome<Value>>, RunError> {
        let Some(runs) = self.program.hooks.detached.clone() else { return Ok(None) };
        let graph = || self.program.plan.graph().to_owned();
        let cancel = self.config.cancel.clone().unwrap_or_default();
        loop {
            match self.drive_once(&*runs, thread).await? {
                None => return Ok(None),
                Some(DetachedEnd::Ended(result)) => return Ok(Some(Outcome::Finished(result))),
                Some(DetachedEnd::Asks(questions)) => {
                    let asked = Interrupted { state: Value::Null, questions, resumable: true };
                    return Ok(Some(Outcome::Interrupted(asked)));
                }
                Some(DetachedEnd::Stopped) => return Err(RunError::Cancelled { graph: graph() }),
                Some(DetachedEnd::Unstored(error)) => {
                    return Err(match error.kind() {
                        NodeErrorKind::Saver(error) => RunError::Saver { graph: graph(), error: error.clone() },
                        _ => RunError::Node { graph: graph(), node: "detached".to_owned(), error },
                    });
                }
                Some(DetachedEnd::Elsewhere) => {}
            }
            if cancel.run_until_cancelled(tokio::time::sleep(AGAIN)).await.is_none() {
                return Err(RunError::Cancelled { graph: graph() });
            }
        }
    }

    /// Drives a run once in this process. Returns `None` if the graph has no such run, or has cancelled it meanwhile.
    async fn drive_once(&self, runs: &dyn DetachedRuns<S, C>, thread: &str) -> Result<Option<DetachedEnd>, RunError> {
        let Self { program, attached, config, context, emitter } = self;
        let saver = attached.saver.as_ref().ok_or_else(|| no_checkpointer(program))?;
        let state = Arc::new(snapshot(program, saver, config).await?.values);
        let outer = config.thread_id().unwrap_or_default();
        let name = runs.names(&state).into_iter().find(|name| background::thread_of(outer, name) == thread);
        let Some(name) = name else { return Ok(None) };
        let (tracker, background) = (TaskTracker::new(), Arc::new(BackgroundRuns::new(attached.clone())));
        let mut shared = RunShared::new(program.plan.clone(), context.clone(), config.clone(), tracker.clone());
        shared.scope = program.hooks.enter(None, &shared.context);
        shared.background = background.clone();
        shared.sink = emitter.clone().map(|emitter| emitter as Arc<dyn EventSink>);
        shared.store.clone_from(&attached.store);
        let run = Run::of_task(Arc::new(shared), TaskKey { node: 0, step: 0, send: None });
        let task = Task { graph: program.clone(), state, run, arg: None, failure: None };
        let end = match runs.start(&task, &name) {
            Ok(()) => self.end(runs, &background, thread).await,
            Err(error) => Some(DetachedEnd::Unstored(error)),
        };
        background.stop_within(&[], false);
        tracker.close();
        tracker.wait().await;
        Ok(end)
    }

    /// Waits for the end of a run. If the graph has cancelled the run meanwhile, stops the run and returns `None`.
    async fn end(
        &self,
        runs: &dyn DetachedRuns<S, C>,
        background: &BackgroundRuns,
        thread: &str,
    ) -> Option<DetachedEnd> {
        let mut end = pin!(background.end(thread));
        loop {
            if let Ok(end) = tokio::time::timeout(LOOK, &mut end).await {
                return Some(end.map_or(DetachedEnd::Stopped, |end| runs.end(&end)));
            }
            // If the thread cannot be read now, the next check reads it.
            let current = detached_threads(&self.program, &self.attached, &self.config).await;
            if current.is_ok_and(|current| !current.iter().any(|current| current == thread)) {
                background.cancel(thread).await;
                return None;
            }
        }
    }
}
