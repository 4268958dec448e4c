//! Resumes threads whose timer has expired or whose signal has arrived.

use std::collections::{HashSet, VecDeque};
use std::fmt;
use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use futures_util::stream::FuturesUnordered;
use futures_util::{Stream, StreamExt, stream};
use tokio_util::task::AbortOnDropHandle;

use super::CompiledGraph;
use crate::checkpoint::{BoxFuture, DueQuery, DueThread, SaverError, WhenRunning};
use crate::config::Config;
use crate::engine::Saver;
use crate::engine::program::{GraphOutput, Input, Program};
use crate::engine::{self, Outcome};
use crate::error::RunError;
use crate::panics;
use crate::state::Values;
use crate::sync::{Mutex, lock};

/// The default of [`DueSweeper::concurrency`].
const CONCURRENCY: usize = 8;
/// Maximum number of threads that one page of a search lists. [`DueSweeper::drive_due`] reads no further page after it
/// has driven this number of threads.
const LIMIT: usize = 256;
/// The delay before a thread whose run has failed is driven again.
const AGAIN: Duration = Duration::from_mins(1);

type ContextOf<C> = Arc<dyn Fn(&str) -> C + Send + Sync>;

/// A sweeper, which resumes the due threads of a graph. [`CompiledGraph::sweeper`] returns it.
#[must_use]
pub struct DueSweeper<S: Values, C, I, O> {
    graph: CompiledGraph<S, C, I, O>,
    context: ContextOf<C>,
    config: Config,
    concurrency: usize,
    clock: Arc<dyn Fn() -> SystemTime + Send + Sync>,
}

impl<S: Values, C, I, O> fmt::Debug for DueSweeper<S, C, I, O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DueSweeper").field("graph", &self.graph).finish_non_exhaustive()
    }
}

/// A thread that a [`DueSweeper`] has resumed.
#[derive(Debug)]
#[non_exhaustive]
pub struct Driven<O> {
    /// The id of the thread.
    pub thread: String,
    /// The result of the run.
    pub outcome: Result<Outcome<O>, RunError>,
}

/// A handle of a sweeper that runs in the background. Dropping it stops the sweeper and cancels its runs.
#[derive(Debug)]
pub struct SweepHandle {
    _task: AbortOnDropHandle<()>,
}

impl<S, C, I, O> CompiledGraph<S, C, I, O>
where
    S: Values,
    C: Send + Sync + 'static,
    I: 'static,
    O: GraphOutput<S> + Send + 'static,
{
    /// Returns a sweeper that resumes the due threads of this graph. A thread is due if it waits for a time that has
    /// come ([`Run::sleep_until`](crate::Run::sleep_until), [`Interrupt::until`](crate::Interrupt::until)), or for a
    /// [signal](crate::Run::signal) that has arrived. The function `context` receives the id of a thread and returns
    /// the context of its run.
    ///
    /// Any number of processes may sweep the same saver, because only one of them can claim a thread at a time. If a
    /// process is killed while it resumes a thread, another sweeper continues the thread when the lease of the killed
    /// process has expired. This includes a process that is killed during a sleep in place
    /// ([`Config::sleep_in_place`](crate::Config::sleep_in_place)).
    ///
    /// ```
    /// # use std::time::{Duration, SystemTime};
    /// # use hier_core::prelude::*;
    /// # use hier_core::checkpoint::MemorySaver;
    /// # #[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
    /// # struct Case { reminded: bool }
    /// const WEEK: Duration = Duration::from_hours(168);
    ///
    /// async fn remind(run: &Run) -> hier_core::Result<CaseUpdate> {
    ///     run.sleep(WEEK).await?;
    ///     Ok(Case::update().reminded(true))
    /// }
    /// # graph! { Reminder<Case> = Graph { nodes: [remind], edges: [START >> remind >> END] } }
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> hier_core::Result<()> {
    /// let graph = Reminder::compile().checkpointer(MemorySaver::new());
    /// let asleep = graph.invoke(Case::update()).thread("case-17").await?;
    /// assert!(!asleep.is_finished());
    ///
    /// let sweeper = graph.sweeper(|_thread| ());
    /// assert!(sweeper.drive_due(SystemTime::now()).await?.is_empty());
    /// let driven = sweeper.drive_due(SystemTime::now() + WEEK + Duration::from_secs(1)).await?;
    /// assert!(driven[0].outcome.as_ref().is_ok_and(|outcome| outcome.state().reminded));
    ///
    /// let in_the_background = sweeper.every(Duration::from_secs(5));
    /// # drop(in_the_background);
    /// # Ok(())
    /// # }
    /// ```
    pub fn sweeper(&self, context: impl Fn(&str) -> C + Send + Sync + 'static) -> DueSweeper<S, C, I, O> {
        DueSweeper {
            graph: self.clone(),
            context: Arc::new(context),
            config: Config::default(),
            concurrency: CONCURRENCY,
            clock: Arc::new(SystemTime::now),
        }
    }
}

impl<S, C, I, O> DueSweeper<S, C, I, O>
where
    S: Values,
    C: Send + Sync + 'static,
    I: 'static,
    O: GraphOutput<S> + Send + 'static,
{
    /// Sets the options of the runs, such as durability, limits and metadata. The sweeper itself sets the thread, the
    /// checkpoint, the current time and `when_running`, so those of this configuration have no effect.
    pub fn config(mut self, config: Config) -> Self {
        self.config = config;
        self
    }

    /// Limits the number of threads that run at the same time. 0 counts as 1. Defaults to 8.
    pub fn concurrency(mut self, threads: usize) -> Self {
        self.concurrency = threads.max(1);
        self
    }

    /// Sets the clock of [`DueSweeper::every`]. Defaults to the system clock.
    pub fn clock(mut self, clock: impl Fn() -> SystemTime + Send + Sync + 'static) -> Self {
        self.clock = Arc::new(clock);
        self
    }

    /// Resumes the threads that are due at the time `now`, the longest overdue first. Returns the results of their
    /// runs.
    ///
    /// The sweeper reads due threads in pages of 256. When 256 runs of a call have ended, the call reads no further
    /// page. With N slots ([`DueSweeper::concurrency`]), one call therefore resumes at most 510 + N threads. It skips
    /// threads that another process runs. A slow thread occupies one slot, and does not delay the other slots. Dropping
    /// the future cancels the runs.
    ///
    /// # Errors
    ///
    /// Fails without a checkpointer, or if the saver cannot list the due threads and no thread was resumed. The error
    /// of a run is in [`Driven::outcome`].
    pub async fn drive_due(&self, now: SystemTime) -> Result<Vec<Driven<O>>, RunError> {
        let (mut driven, mut running, mut queue) = (Vec::new(), FuturesUnordered::new(), VecDeque::new());
        let (mut search, mut failed) = (Some(None), None);
        loop {
            while running.len() < self.concurrency
                && let Some(due) = queue.pop_front()
            {
                running.push(self.drive_guarded(due, now));
            }
            if running.len() == self.concurrency || driven.len() >= LIMIT {
                search = search.filter(|_| driven.len() < LIMIT);
            } else if let Some(after) = search.take() {
                let mut page = pin!(self.page(now, after));
                let found = loop {
                    tokio::select! {
                        biased;
                        found = &mut page => break found,
                        Some(ended) = running.next(), if !running.is_empty() => driven.extend(ended),
                    }
                };
                match found {
                    Ok((page, next)) => {
                        queue.extend(page);
                        search = next;
                    }
                    Err(error) => failed = Some(error),
                }
                continue;
            }
            match running.next().await {
                Some(ended) => driven.extend(ended),
                None => break,
            }
        }
        match failed {
            Some(error) if driven.is_empty() => Err(error),
            _ => Ok(driven),
        }
    }

    /// Returns a page of due threads. `after` is the last thread of the previous page. Also returns the position of the
    /// next page, if there is one.
    async fn page(
        &self,
        now: SystemTime,
        after: Option<DueThread>,
    ) -> Result<(Vec<DueThread>, Option<Option<DueThread>>), RunError> {
        let (saver, program) = (self.graph.saver("resume due threads")?, &self.graph.inner);
        let page = saver.due(DueQuery::new(now, names(program), LIMIT).after(after.clone())).await;
        let page = page.map_err(|error| RunError::Saver { graph: program.plan.graph().to_owned(), error })?;
        // A saver that returns the same page again has no further threads.
        let is_last = page.len() < LIMIT || page.last() == after.as_ref();
        let last = (!is_last).then(|| page.last().cloned());
        Ok((page, last))
    }

    /// Resumes due threads in the background until the handle is dropped. The argument is the interval between two
    /// searches for due threads. The sweeper logs errors through `tracing`. Call this method in a tokio runtime.
    #[must_use = "the sweeper stops when its handle is dropped"]
    pub fn every(self, every: Duration) -> SweepHandle {
        SweepHandle { _task: AbortOnDropHandle::new(tokio::spawn(self.sweep_forever(every))) }
    }

    async fn sweep_forever(self, every: Duration) {
        let in_flight = Mutex::<HashSet<Arc<str>>>::default();
        let work = self.rounds(every).map(|(due, now)| {
            let (in_flight, is_new) = (&in_flight, lock(&in_flight).insert(due.thread.clone()));
            let this = &self;
            async move {
                if is_new {
                    let thread = due.thread.clone();
                    this.drive_guarded(due, now).await.into_iter().for_each(log_driven);
                    lock(in_flight).remove(&thread);
                }
            }
        });
        work.buffer_unordered(self.concurrency).collect::<()>().await;
    }

    /// Searches for due threads at each interval. Returns each thread with the time of the search.
    fn rounds(&self, every: Duration) -> impl Stream<Item = (DueThread, SystemTime)> + Send {
        type Search = Option<(SystemTime, Option<DueThread>)>;
        let pages = stream::unfold((Search::None, Duration::ZERO), move |(search, wait)| -> BoxFuture<'_, _> {
            Box::pin(async move {
                tokio::time::sleep(wait).await;
                let (now, after) = search.unwrap_or_else(|| (self.now(), None));
                let (page, last) = self.page(now, after).await.unwrap_or_else(|error| {
                    tracing::warn!(%error, "failed to search for due threads; trying again later");
                    (Vec::new(), None)
                });
                // After the last page, the next search begins at the first page.
                let next = last.map(|last| (now, last));
                let wait = if next.is_none() { every } else { Duration::ZERO };
                Some((stream::iter(page).map(move |due| (due, now)), (next, wait)))
            })
        });
        pages.flatten()
    }

    /// Returns the time of the sweeper's clock. If the clock panics, returns the system time.
    fn now(&self) -> SystemTime {
        panics::catch(|| (self.clock)()).unwrap_or_else(|payload| {
            let message = panics::text(&*payload);
            tracing::error!(message, "the clock of a sweeper panicked; using the system clock: fix the panic");
            SystemTime::now()
        })
    }

    /// Drives a thread. A panic ends only the run of this thread, and delays its next attempt.
    async fn drive_guarded(&self, due: DueThread, now: SystemTime) -> Option<Driven<O>> {
        let thread = due.thread.clone();
        let payload = match panics::caught(self.drive(due, now)).await {
            Ok(driven) => return driven,
            Err(payload) => payload,
        };
        let (message, graph) = (panics::text(&*payload), self.graph.inner.plan.graph().to_owned());
        if let Some(saver) = &self.graph.attached.saver {
            let _ = settle(&self.graph.inner, saver, &self.config_of(&thread, now), Some(now + AGAIN)).await;
        }
        let outcome = Err(RunError::Panicked { graph, thread: thread.to_string(), message });
        Some(Driven { thread: thread.to_string(), outcome })
    }

    fn config_of(&self, thread: &Arc<str>, now: SystemTime) -> Config {
        let mut config = self.config.clone().at(now).when_running(WhenRunning::Reject);
        config.thread = Some(thread.to_string());
        config.checkpoint = None;
        config
    }

    /// Drives a thread. Returns `None` if the thread is not due any more, or if another process runs it.
    async fn drive(&self, due: DueThread, now: SystemTime) -> Option<Driven<O>> {
        let (saver, program) = (self.graph.attached.saver.as_ref()?, &self.graph.inner);
        let config = self.config_of(&due.thread, now);
        let thread = due.thread;
        let failed = |error| RunError::Saver { graph: program.plan.graph().to_owned(), error };
        let driven = |outcome| Some(Driven { thread: thread.to_string(), outcome });
        // Most of these threads have an active run. Checking the lease first avoids reading such a thread.
        if due.driven {
            match engine::claim(saver, &config, WhenRunning::Reject, program.plan.graph()).await {
                Ok(committer) => committer.release().await,
                Err(RunError::Saver { error: SaverError::Busy { .. }, .. }) => return None,
                Err(error) => return driven(Err(error)),
            }
        }
        let waiting = match engine::waiting(saver, &thread, &program.renamed, now).await {
            Ok(waiting) => waiting,
            Err(error) => return driven(Err(failed(error))),
        };
        let is_own = waiting.graph.as_ref().is_some_and(|graph| names(program).iter().any(|own| **own == **graph));
        // A run that was killed is resumed even if none of its tasks is due.
        let is_due = due.driven || waiting.at.is_some_and(|at| at <= now);
        if !is_own || !is_due {
            // Another run has resumed the thread meanwhile, or no task waits for the signal.
            return settle(program, saver, &config, None).await.err().and_then(|error| driven(Err(error)));
        }
        let context = Arc::new((self.context)(&thread));
        let (graph, attached) = (program.clone(), self.graph.attached.clone());
        let outcome = engine::run(graph, attached, Input::Continue, Arc::new(config.clone()), context, None).await;
        match outcome {
            Err(RunError::Saver { error: SaverError::Busy { .. }, .. }) => None,
            Ok(outcome) => driven(Ok(outcome)),
            Err(error) => {
                let left = engine::waiting(saver, &thread, &program.renamed, now).await.unwrap_or_default();
                if left.at.is_some_and(|at| at <= now) {
                    // Other threads go first. If `settle` fails, the next search finds the thread again.
                    let _ = settle(program, saver, &config, Some(now + AGAIN)).await;
                }
                driven(Err(error))
            }
        }
    }
}

fn log_driven<O>(driven: Driven<O>) {
    let Driven { thread, outcome } = driven;
    match outcome {
        Ok(outcome) => tracing::debug!(thread, finished = outcome.is_finished(), "drove a due thread"),
        Err(error) => tracing::warn!(thread, %error, "a due thread failed"),
    }
}

/// Returns the current and the earlier names of a graph. Its threads are stored under these names.
pub(super) fn names<S: Values, C>(program: &Program<S, C>) -> Vec<String> {
    let graph = program.plan.graph();
    let old = program.renamed.iter().filter(|(_, new)| new == graph).map(|(old, _)| old.clone());
    old.chain([graph.to_owned()]).collect()
}

/// Returns true if the thread can be resumed now. Updates the entry of the thread in the list of due threads if the
/// thread cannot be resumed, or if `again` is set.
pub(super) async fn is_due<S: Values, C>(
    program: &Program<S, C>,
    saver: &Saver,
    config: &Config,
    again: Option<SystemTime>,
) -> Result<bool, RunError> {
    let (now, thread) = (config.now(), config.thread_id().unwrap_or_default());
    let waiting = engine::waiting(saver, thread, &program.renamed, now).await;
    let waiting = waiting.map_err(|error| RunError::Saver { graph: program.plan.graph().to_owned(), error })?;
    let is_due = waiting.at.is_some_and(|at| at <= now);
    if !is_due || again.is_some() {
        settle(program, saver, config, again.filter(|_| is_due)).await?;
    }
    Ok(is_due)
}

/// Stores the next due time of a thread under its lease. With `again`, the thread is due at that time instead.
async fn settle<S: Values, C>(
    program: &Program<S, C>,
    saver: &Saver,
    config: &Config,
    again: Option<SystemTime>,
) -> Result<(), RunError> {
    let graph = program.plan.graph();
    let committer = match engine::claim(saver, config, WhenRunning::Reject, graph).await {
        Ok(committer) => committer,
        Err(RunError::Saver { error: SaverError::Busy { .. }, .. }) => return Ok(()),
        Err(error) => return Err(error),
    };
    let settled = match again {
        None => engine::settle(&committer, &program.renamed, config.now()).await.map(|_| ()),
        Some(again) => engine::postpone(&committer, again).await,
    };
    committer.release().await;
    settled.map_err(|error| RunError::Saver { graph: graph.to_owned(), error })
}
