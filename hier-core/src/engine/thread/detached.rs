//! Continues detached background runs without a run of the graph that started them.

use std::collections::BTreeSet;
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

/// Time after which a run that another process drives is tried again.
const AGAIN: Duration = Duration::from_secs(1);

/// Interval of looking if a later run of the graph has cancelled a run.
const LOOK: Duration = Duration::from_secs(5);

/// The detached runs of a thread that is not running.
pub(crate) struct Detached<S: Values, C> {
    pub(crate) program: Arc<Program<S, C>>,
    pub(crate) attached: Attachments,
    /// The configuration of the thread that started them.
    pub(crate) config: Arc<Config>,
    pub(crate) context: Arc<C>,
    pub(crate) emitter: Option<Arc<Emitter<S>>>,
}

/// Returns the threads of the detached runs of a thread whose results are not collected.
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
    /// Drives the runs, or only the one on this thread, until each has ended or waits for answers.
    pub(crate) async fn drive(self, only: Option<&str>) -> Result<Vec<Outcome<Value>>, RunError> {
        let Some(runs) = self.program.hooks.detached.clone() else { return Ok(Vec::new()) };
        let cancel = self.config.cancel.clone().unwrap_or_default();
        loop {
            let ends = self.drive_once(&*runs, only).await?;
            let graph = || self.program.plan.graph().to_owned();
            let (mut outcomes, mut is_elsewhere) = (Vec::new(), false);
            for end in ends {
                match end {
                    DetachedEnd::Ended(result) => outcomes.push(Outcome::Finished(result)),
                    DetachedEnd::Asks(questions) => {
                        let asked = Interrupted { state: Value::Null, questions, resumable: true };
                        outcomes.push(Outcome::Interrupted(asked));
                    }
                    DetachedEnd::Stopped => return Err(RunError::Cancelled { graph: graph() }),
                    DetachedEnd::Elsewhere => is_elsewhere = true,
                    DetachedEnd::Unstored(error) => {
                        return Err(match error.kind() {
                            NodeErrorKind::Saver(error) => RunError::Saver { graph: graph(), error: error.clone() },
                            _ => RunError::Node { graph: graph(), node: "detached".to_owned(), error },
                        });
                    }
                }
            }
            if !is_elsewhere {
                return Ok(outcomes);
            }
            if cancel.run_until_cancelled(tokio::time::sleep(AGAIN)).await.is_none() {
                return Err(RunError::Cancelled { graph: graph() });
            }
        }
    }

    async fn drive_once(
        &self,
        runs: &dyn DetachedRuns<S, C>,
        only: Option<&str>,
    ) -> Result<Vec<DetachedEnd>, RunError> {
        let Self { program, attached, config, context, emitter } = self;
        let saver = attached.saver.as_ref().ok_or_else(|| no_checkpointer(program))?;
        let state = Arc::new(snapshot(program, saver, config).await?.values);
        let (tracker, background) = (TaskTracker::new(), Arc::new(BackgroundRuns::new(attached.clone())));
        let mut shared = RunShared::new(program.plan.clone(), context.clone(), config.clone(), tracker.clone());
        shared.scope = program.hooks.enter(None, &shared.context);
        shared.background = background.clone();
        shared.sink = emitter.clone().map(|emitter| emitter as Arc<dyn EventSink>);
        shared.store.clone_from(&attached.store);
        let run = Run::of_task(Arc::new(shared), TaskKey { node: 0, step: 0, send: None });
        let names = runs.names(&state);
        let task = Task { graph: program.clone(), state, run, arg: None, failure: None };
        let outer = config.thread_id().unwrap_or_default();
        let threads = names.into_iter().map(|name| (background::thread_of(outer, &name), name));
        let (mut ends, mut started) = (Vec::new(), Vec::<String>::new());
        for (thread, name) in threads.filter(|(thread, _)| only.is_none_or(|only| only == thread)) {
            match runs.start(&task, &name) {
                Ok(()) => started.push(thread),
                Err(error) => ends.push(DetachedEnd::Unstored(error)),
            }
        }
        let gone = self.until_ended(&background, &started).await;
        for thread in started.iter().filter(|thread| !gone.contains(*thread)) {
            let end = background.ended(thread);
            ends.push(end.map_or(DetachedEnd::Stopped, |end| runs.end(&end)));
        }
        background.stop_within(&[], false);
        tracker.close();
        tracker.wait().await;
        Ok(ends)
    }

    /// Waits until all of these runs have ended. Stops those that the graph has cancelled meanwhile, and returns them.
    async fn until_ended(&self, background: &BackgroundRuns, started: &[String]) -> BTreeSet<String> {
        let mut gone = BTreeSet::new();
        let mut ends = pin!(join_all(started.iter().map(|thread| background.end(thread))));
        while tokio::time::timeout(LOOK, &mut ends).await.is_err() {
            // A thread that cannot be read now is read again.
            let Ok(current) = detached_threads(&self.program, &self.attached, &self.config).await else { continue };
            for thread in started.iter().filter(|thread| !current.contains(*thread)) {
                background.cancel(thread).await;
                gone.insert(thread.clone());
            }
        }
        gone
    }
}
