//! Executes slices of runs. A slice runs on a thread in memory, which records the commits. This module does not use
//! Restate's journals.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use hier_core::checkpoint::{Checkpointer, DueQuery, ListQuery, MemorySaver, SaverError};
use hier_core::drive::{self, PartialStep};
use hier_core::graph::{DynGraph, DynInput, DynRun, DynSnapshot, RunContext};
use hier_core::store::Store;
use hier_core::{Outcome, RunError};
use serde_json::Value;
use tokio::sync::{Semaphore, SemaphorePermit};
use uuid::Uuid;

use crate::cache::ThreadCache;
use crate::error::RunFailure;
use crate::event_sender::EventSender;
use crate::log::{ThreadLog, UnclaimedThread, rebuilt, replay};
use crate::message::{self, Message};
use crate::slice::{RemoteRule, Slice, SliceEnd, SliceProgress};
use crate::wire::{
    EncodedEntries, HistoryRange, LogEntry, LogSource, SliceContext, TaskCall, TaskEnd, ThreadVersion, UpdateState,
};
use crate::work::{DueTime, SliceWork, ThreadWork, WorkEnd, WorkResult, WorkerAnswer, holder_of, millis, with_claim};

pub(crate) type GraphSelector = dyn Fn(&str) -> Option<Arc<dyn DynGraph>> + Send + Sync;

pub(crate) type Describe = dyn Fn(&RunError) -> Value + Send + Sync;

/// The maximum size of a thread that is sent to other workers together with its tasks.
const SMALL: usize = 32 << 10;

/// The size that the entries after the last head must exceed before a worker writes a new head. They must also exceed
/// the size of the last head.
const HEAD: u64 = 128 << 10;

pub(crate) struct Host {
    pub(crate) name: String,
    pub(crate) choose: Arc<GraphSelector>,
    /// The saver that stores checkpoints instead of Restate.
    pub(crate) saver: Option<Arc<dyn Checkpointer>>,
    pub(crate) store: Option<Arc<dyn Store>>,
    pub(crate) fan_out: Option<RemoteRule>,
    /// The time for which Restate keeps the result of a run.
    pub(crate) ends_kept: Duration,
    /// True if new threads discard the entries before their heads.
    pub(crate) latest_only: bool,
    pub(crate) describe: Option<Arc<Describe>>,
    pub(crate) limit: usize,
    /// A permit for each slice that this process may execute at the same time, for all graphs together.
    pub(crate) slots: Option<Arc<Semaphore>>,
    /// The threads as the last slices on this worker left them.
    pub(crate) threads: ThreadCache,
    /// The threads from which tasks start.
    pub(crate) bases: ThreadCache,
}

/// A thread to add to the cache after Restate has recorded the result of its work.
#[derive(Debug, Default)]
pub(crate) struct CacheUpdate(Option<(MemorySaver, bool)>);

impl Host {
    pub(crate) fn graph(&self, thread: &str) -> Result<Arc<dyn DynGraph>, RunFailure> {
        (self.choose)(thread).ok_or_else(|| {
            RunFailure::new("UnknownGraph", format!("this worker has no graph `{}` for thread `{thread}`", self.name))
        })
    }

    fn failure(&self, error: &RunError) -> RunFailure {
        let details = self.describe.as_ref().map_or(Value::Null, |describe| describe(error));
        RunFailure { details, ..RunFailure::from_run_error(error) }
    }

    /// Waits for a permit. A slice with a permit never waits for another permit, so slices cannot deadlock.
    async fn slot(&self) -> Option<SemaphorePermit<'_>> {
        // The semaphore is never closed.
        self.slots.as_ref()?.acquire().await.ok()
    }

    /// Executes work on a thread. `kept` receives the thread to cache after Restate has recorded the result. After an
    /// error, Restate repeats the work, possibly on another machine.
    pub(crate) async fn work(
        &self,
        at: &ThreadVersion,
        source: Option<LogSource>,
        since: (u64, u64),
        work: ThreadWork,
        kept: &mut CacheUpdate,
    ) -> Result<Message<WorkerAnswer>, SaverError> {
        let _slot = self.slot().await;
        let graph = match self.graph(&at.thread) {
            Ok(graph) => graph,
            Err(failure) => return Ok(WorkResult::failed(failure).message(self.limit).0),
        };
        if let Some(saver) = &self.saver {
            let done = self.done(&*graph, at, saver.clone(), saver.clone(), work).await?;
            return Ok(done.message(self.limit).0);
        }
        let whole = work.needs_history();
        let (saver, is_whole) = match source {
            Some(source) => {
                let whole = source.whole;
                (rebuilt(&at.thread, source).await?, whole)
            }
            None if at.version == 0 => (MemorySaver::new(), true),
            None => match self.threads.take(&self.name, at, whole) {
                Some(found) => found,
                None => return Ok(Message::unchecked(&None)),
            },
        };
        let log = ThreadLog::new(saver.clone());
        let mut done = self.done(&*graph, at, Arc::new(log.clone()), Arc::new(saver.clone()), work).await?;
        done.entries = match self.entries("the data of the superstep", &log) {
            Ok(entries) => entries,
            // The thread is unchanged.
            Err(failure) => return Ok(WorkResult::failed(failure).message(self.limit).0),
        };
        let length = done.entries.bytes().len();
        if let WorkEnd::Remote(base, _) = &mut done.end {
            *base = drive::dump(&saver, &at.thread, false).ok().filter(|base| base.len() <= SMALL);
        }
        let (since, head) = (since.0 + length as u64, since.1);
        // The head and the entries after it are at least as large as the thread.
        if length > 0 && (since > head.max(HEAD) || since + head > self.limit as u64) {
            let dump = drive::dump(&saver, &at.thread, false).ok();
            let size = dump.as_ref().map_or(0, Vec::len);
            if let Err(failure) = message::check("the state of the thread", size, self.limit) {
                return Ok(WorkResult::failed(failure).message(self.limit).0);
            }
            done.head = dump.filter(|_| since > head.max(HEAD));
        }
        let (message, done) = done.message(self.limit);
        let Some(done) = done else { return Ok(message) };
        kept.0 = Some(match done.head {
            // Entries before the head are not kept in memory, however long the thread is.
            Some(head) => {
                let source = LogSource { head: Some(head), ..LogSource::default() };
                (rebuilt(&at.thread, source).await?, false)
            }
            None => (saver, is_whole),
        });
        Ok(message)
    }

    pub(crate) fn keep(&self, at: ThreadVersion, kept: CacheUpdate) {
        if let Some((saver, whole)) = kept.0 {
            self.threads.keep(&self.name, at, saver, whole);
        }
    }

    /// Encodes the recorded entries. Fails if they exceed the limit.
    fn entries(&self, what: &str, log: &ThreadLog) -> Result<EncodedEntries, RunFailure> {
        let entries = EncodedEntries::encode(&log.take())
            .map_err(|error| RunFailure::new("RunError", format!("{what}: {error}")))?;
        message::check(what, entries.bytes().len(), self.limit)?;
        Ok(entries)
    }

    async fn done(
        &self,
        graph: &dyn DynGraph,
        at: &ThreadVersion,
        saver: Arc<dyn Checkpointer>,
        held: Arc<dyn Checkpointer>,
        work: ThreadWork,
    ) -> Result<WorkResult, SaverError> {
        let mut done = WorkResult::new(WorkEnd::Nothing);
        match work {
            ThreadWork::Slice(slice) => done = self.slice(graph, at, saver, *slice).await?,
            ThreadWork::Wake(piece) => {
                let due = self.due(graph, &held, &at.thread).await?;
                if due.is_some_and(|due| due <= millis(SystemTime::now())) {
                    done = self.slice(graph, at, saver, SliceWork::later(piece, None)).await?;
                }
            }
            ThreadWork::Update(update, id) => done.end = self.update(graph, saver, update, id).await?,
            ThreadWork::Check(work) => done.end = self.check(graph, at, saver, *work).await?,
            ThreadWork::Look => {}
            ThreadWork::Post(letter) => {
                let posted = saver.inbox()?.post(&at.thread, &graph.spec().name, letter).await;
                done.end = WorkEnd::Posted(match posted {
                    Ok(outcome) => Ok(outcome.is_new()),
                    Err(error @ SaverError::InboxFull { .. }) => Err(RunFailure::new("MailboxFull", error.to_string())),
                    Err(error) => return Err(error),
                });
            }
        }
        done.due = DueTime::Known(self.due(graph, &held, &at.thread).await?);
        done.now = millis(SystemTime::now());
        Ok(done)
    }

    /// Adds entries of other workers to the cached thread.
    pub(crate) async fn absorb(&self, before: &ThreadVersion, after: ThreadVersion, entries: Vec<LogEntry>) {
        if let Some((saver, whole)) = self.threads.take(&self.name, before, false)
            && replay(&saver, &after.thread, entries).await.is_ok()
        {
            self.threads.keep(&self.name, after, saver, whole);
        }
    }

    /// Returns the failure for the client. Returns an error instead if Restate should repeat the work. `work` is the id
    /// of the run or update, if the work has claimed the thread.
    pub(crate) fn refused(&self, error: &RunError, work: Option<Uuid>) -> Result<RunFailure, SaverError> {
        let is_own = |holder: &String| work.is_some_and(|work| *holder == holder_of(work));
        let repeats = |cause: &SaverError| match cause {
            SaverError::Database { .. } | SaverError::Superseded { .. } => true,
            // An earlier attempt holds the thread.
            SaverError::Busy { holder, .. } => is_own(holder),
            _ => false,
        };
        match error.root() {
            RunError::Saver { error: cause, .. } if self.saver.is_some() && repeats(cause) => Err(cause.clone()),
            _ => Ok(self.failure(error)),
        }
    }

    async fn slice(
        &self,
        graph: &dyn DynGraph,
        at: &ThreadVersion,
        mut saver: Arc<dyn Checkpointer>,
        mut work: SliceWork,
    ) -> Result<WorkResult, SaverError> {
        let slice = match &self.saver {
            Some(_) if work.is_first() => match self.begin_slice(graph, saver, work).await? {
                Ok(begun) => {
                    (work, saver) = (begun.work, begun.saver);
                    begun.slice
                }
                Err(failure) => return Ok(WorkResult::failed(failure)),
            },
            _ if work.is_first() => Slice::first(),
            _ => Slice::later(work.piece.progress.clone()),
        };
        let SliceWork { input, piece, part } = work;
        let settings = &piece.settings;
        let mut slice = slice
            .stopped_clock(Duration::from_millis(piece.clock), piece.run)
            .part(part.clone())
            .fan_out(self.fan_out.clone().filter(|_| self.saver.is_none()));
        if settings.checkpoint.is_some() {
            slice = slice.outside_only();
        }
        let slice = Arc::new(slice);
        let mut run = self.run_of(at, input, &piece, slice.clone(), saver);
        let sender = match &piece.listener {
            Some(listener) => Some(EventSender::connect(listener, piece.slice, part.as_ref()).await),
            None => None,
        };
        if let (Some(sender), Some(listener)) = (&sender, &piece.listener) {
            run.modes.clone_from(&listener.modes);
            run.event_sink = Some(sender.sink());
        }
        let ended = graph.run(run).await;
        if let Some(sender) = sender {
            sender.end().await;
        }
        let mut done = WorkResult::new(WorkEnd::Nothing);
        done.progress = slice.progress();
        done.end = match (slice.end(), ended) {
            (Some(SliceEnd::Stored), Ok(Outcome::Stopped(_))) => WorkEnd::Stored,
            (Some(SliceEnd::Remote(remote)), Ok(Outcome::Stopped(_))) => WorkEnd::Remote(None, remote),
            (cut, ended) if matches!(part, Some(PartialStep::Task { .. })) => WorkEnd::Task(match (cut, ended) {
                (_, Err(error)) => Err(self.refused(&error, Some(piece.run))?),
                (_, Ok(Outcome::Interrupted(_))) => Ok(TaskEnd::Asked),
                (None, Ok(Outcome::Stopped(_))) => Ok(TaskEnd::Stopped),
                (_, Ok(_)) => Ok(TaskEnd::Done),
            }),
            (_, Ok(outcome)) => WorkEnd::Run(Ok(outcome)),
            (_, Err(error)) => WorkEnd::Run(Err(self.refused(&error, Some(piece.run))?)),
        };
        Ok(done)
    }

    fn run_of(
        &self,
        at: &ThreadVersion,
        input: DynInput,
        SliceContext { run: id, settings, .. }: &SliceContext,
        slice: Arc<Slice>,
        saver: Arc<dyn Checkpointer>,
    ) -> DynRun {
        let config = with_claim(drive::with_policy(settings.config(), slice), settings.when_running, *id);
        let mut run = DynRun::new(input, config);
        run.saver = Some(saver);
        run.store.clone_from(&self.store);
        run.context = RunContext::new(settings.context.clone());
        run.context.configurable.clone_from(&settings.configurable);
        run.context.thread = Some(at.thread.clone());
        run
    }

    /// Lets the engine check the input of a run or an update. The engine checks an input before it claims the thread.
    async fn check(
        &self,
        graph: &dyn DynGraph,
        at: &ThreadVersion,
        saver: Arc<dyn Checkpointer>,
        work: ThreadWork,
    ) -> Result<WorkEnd, SaverError> {
        let saver = Arc::new(UnclaimedThread::new(saver));
        let stopped = |clock, work| Arc::new(Slice::first().stopped_clock(Duration::from_millis(clock), work));
        let ended = match work {
            ThreadWork::Slice(slice) => {
                let SliceWork { input, piece, .. } = *slice;
                let slice = stopped(piece.clock, piece.run);
                graph.run(self.run_of(at, input, &piece, slice, saver.clone())).await.map(|_| ())
            }
            ThreadWork::Update(UpdateState { asked, settings, supersteps }, id) => {
                let config = drive::with_policy(settings.config(), stopped(asked, id));
                let config = with_claim(config, settings.when_running, id);
                graph.update_state(saver.clone(), config, supersteps).await.map(|_| ())
            }
            _ => Ok(()),
        };
        match ended {
            Err(error) if !saver.was_requested() => Ok(WorkEnd::Run(Err(self.refused(&error, None)?))),
            _ => Ok(WorkEnd::Nothing),
        }
    }

    /// Returns the time at which the thread is due, in milliseconds since 1970. Returns `None` with a saver.
    async fn due(
        &self,
        graph: &dyn DynGraph,
        saver: &Arc<dyn Checkpointer>,
        thread: &str,
    ) -> Result<Option<u64>, SaverError> {
        if self.saver.is_some() {
            // The sweeper of the database finds threads that are due.
            return Ok(None);
        }
        let for_ever = UNIX_EPOCH + Duration::from_secs(1 << 40);
        let due = saver.inbox()?.due(DueQuery::new(for_ever, graph.names(), 1)).await?;
        Ok(due.first().filter(|due| *due.thread == *thread).map(|due| millis(due.at)))
    }

    /// Executes a task of a superstep on a copy of the thread. `earlier` contains the entries of the task's previous
    /// slices.
    pub(crate) async fn task(
        &self,
        call: &TaskCall,
        base: Option<Vec<u8>>,
        earlier: Vec<EncodedEntries>,
        progress: SliceProgress,
    ) -> Result<Message<WorkerAnswer>, SaverError> {
        let _slot = self.slot().await;
        let at = &call.at;
        let graph = match self.graph(&at.thread) {
            Ok(graph) => graph,
            Err(failure) => return Ok(WorkResult::failed(failure).message(self.limit).0),
        };
        let saver = match (self.bases.look(&self.name, at), base.as_ref().or(call.base.as_ref())) {
            (Some(saver), _) => saver,
            (None, Some(base)) => {
                let source = LogSource { head: Some(base.clone()), ..LogSource::default() };
                let saver = rebuilt(&at.thread, source).await?;
                self.bases.keep(&self.name, at.clone(), saver.clone(), false);
                saver
            }
            (None, None) => return Ok(Message::unchecked(&None)),
        };
        let copy = drive::apart(&saver, &at.thread);
        if !earlier.is_empty() {
            let entries = earlier.iter().map(EncodedEntries::read).collect::<Result<Vec<_>, _>>();
            let entries =
                entries.map_err(|error| SaverError::Invalid(format!("cannot read the entries of a task: {error}")))?;
            replay(&copy, &at.thread, entries.concat()).await?;
        }
        let log = ThreadLog::new(copy);
        let piece = SliceContext { progress, ..call.piece.clone() };
        let slice = SliceWork::later(piece, Some(call.part.clone()));
        let mut done = self.slice(&*graph, at, Arc::new(log.clone()), slice).await?;
        match self.entries("the data of the task", &log) {
            Ok(entries) => done.entries = entries,
            Err(failure) => done = WorkResult::failed(failure),
        }
        Ok(done.message(self.limit).0)
    }

    pub(crate) async fn read(
        &self,
        thread: &str,
        source: LogSource,
        settings: &drive::Settings,
        history: Option<HistoryRange>,
    ) -> Result<Result<Vec<DynSnapshot>, RunFailure>, SaverError> {
        let graph = match self.graph(thread) {
            Ok(graph) => graph,
            Err(failure) => return Ok(Err(failure)),
        };
        let saver: Arc<dyn Checkpointer> = match &self.saver {
            Some(saver) => saver.clone(),
            None => Arc::new(rebuilt(thread, source).await?),
        };
        let config = settings.config();
        let found = match history {
            None => graph.state(saver, config).await.map(|state| vec![state]),
            Some(wanted) => {
                let query = ListQuery {
                    limit: wanted.limit,
                    before: wanted.before,
                    filter: wanted.filter.into_iter().collect(),
                    ..ListQuery::default()
                };
                graph.history(saver, config, query).await
            }
        };
        Ok(match found {
            Ok(found) => Ok(found),
            Err(error) => Err(self.refused(&error, None)?),
        })
    }
}
