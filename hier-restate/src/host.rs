//! Does pieces of runs: on a thread in memory, which notes what was committed. Nothing here knows of journals.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use hier_core::checkpoint::{Checkpointer, DueQuery, ListQuery, MemorySaver, SaverError};
use hier_core::drive::{self, PartialStep};
use hier_core::graph::{DynGraph, DynInput, DynRun, DynSnapshot, RunContext};
use hier_core::store::Store;
use hier_core::{Outcome, RunError};
use serde_json::Value;
use tokio::sync::{Semaphore, SemaphorePermit};

use crate::cache::Cache;
use crate::error::Failure;
use crate::log::{ThreadLog, rebuilt, replay};
use crate::slice::{Progress, RemoteRule, Slice, SliceEnd};
use crate::tell::Teller;
use crate::wire::{At, Entries, Entry, HistoryQuery, Piece, Source, TaskCall, TaskEnd};
use crate::work::{Answer, Done, Due, End, Work, millis};

/// Chooses the graph of a thread.
pub(crate) type Choose = dyn Fn(&str) -> Option<Arc<dyn DynGraph>> + Send + Sync;

/// Says more about an error.
pub(crate) type Describe = dyn Fn(&RunError) -> Value + Send + Sync;

/// A thread that is not longer than this goes out with its tasks.
const SMALL: usize = 32 << 10;

/// A head is made once the entries since the last are longer than this, and than the head.
const HEAD: u64 = 128 << 10;

/// A graph that this worker runs.
pub(crate) struct Host {
    pub(crate) name: String,
    pub(crate) choose: Arc<Choose>,
    /// Where checkpoints are kept instead of in Restate.
    pub(crate) saver: Option<Arc<dyn Checkpointer>>,
    pub(crate) store: Option<Arc<dyn Store>>,
    pub(crate) fan_out: Option<RemoteRule>,
    /// How long the end of a run can be asked for again.
    pub(crate) ends_kept: Duration,
    /// Whether new threads forget what came before their heads.
    pub(crate) latest_only: bool,
    pub(crate) describe: Option<Arc<Describe>>,
    /// The longest payload.
    pub(crate) limit: usize,
    /// As many permits as pieces of work may be done at once in this process, for all graphs together.
    pub(crate) slots: Option<Arc<Semaphore>>,
    /// Threads as the runs here have left them.
    pub(crate) threads: Cache,
    /// Threads as tasks start from them.
    pub(crate) bases: Cache,
}

/// What a worker knows of a piece of work that it has done.
#[derive(Debug, Default)]
pub(crate) struct Kept(Option<(MemorySaver, bool)>);

impl Host {
    pub(crate) fn graph(&self, thread: &str) -> Result<Arc<dyn DynGraph>, Failure> {
        (self.choose)(thread).ok_or_else(|| {
            Failure::new("UnknownGraph", format!("this worker has no graph `{}` for thread `{thread}`", self.name))
        })
    }

    /// What of an error reaches the client.
    fn failure(&self, error: &RunError) -> Failure {
        let details = self.describe.as_ref().map_or(Value::Null, |describe| describe(error));
        Failure { details, ..Failure::of(error) }
    }

    /// Waits until this process may do one more piece of work. No piece waits for another, so that all get their turn.
    async fn slot(&self) -> Option<SemaphorePermit<'_>> {
        // The semaphore is never closed.
        self.slots.as_ref()?.acquire().await.ok()
    }

    /// Does a piece of work on a thread. `kept` is what to keep of it once it is recorded. The error is one of this machine's.
    pub(crate) async fn work(
        &self,
        at: &At,
        source: Option<Source>,
        since: (u64, u64),
        work: Work,
        kept: &mut Kept,
    ) -> Result<Answer, SaverError> {
        let _slot = self.slot().await;
        let graph = match self.graph(&at.thread) {
            Ok(graph) => graph,
            Err(failure) => return Ok(Answer::done(Done::failed(failure))),
        };
        if let Some(saver) = &self.saver {
            let done = self.done(&*graph, at, saver.clone(), saver.clone(), work).await?;
            return Ok(Answer::done(done));
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
                None => return Ok(Answer::Missing),
            },
        };
        let log = ThreadLog::new(saver.clone());
        let mut done = self.done(&*graph, at, Arc::new(log.clone()), Arc::new(saver.clone()), work).await?;
        done.entries = match self.entries("what the superstep wrote", &log) {
            Ok(entries) => entries,
            // The thread stays as it was.
            Err(failure) => return Ok(Answer::done(Done::failed(failure))),
        };
        let length = done.entries.bytes().len();
        if let End::Remote(base, _) = &mut done.end {
            *base = drive::dump(&saver, &at.thread, false).ok().filter(|base| base.len() <= SMALL);
        }
        let (since, head) = since;
        if since + length as u64 > head.max(HEAD) {
            done.head = drive::dump(&saver, &at.thread, false).ok().filter(|dump| dump.len() + length <= self.limit);
        }
        kept.0 = Some(match &done.head {
            // Of what came before the head nothing is kept in memory, however long the thread is.
            Some(head) => {
                let source = Source { head: Some(head.clone()), ..Source::default() };
                (rebuilt(&at.thread, source).await?, false)
            }
            None => (saver, is_whole),
        });
        Ok(Answer::done(done))
    }

    /// Keeps what a piece of work has left, which is recorded now.
    pub(crate) fn keep(&self, at: At, kept: Kept) {
        if let Some((saver, whole)) = kept.0 {
            self.threads.keep(&self.name, at, saver, whole);
        }
    }

    /// What was noted, if it is not too long.
    fn entries(&self, what: &str, log: &ThreadLog) -> Result<Entries, Failure> {
        let entries = Entries::of(&log.take()).map_err(|error| Failure::new("RunError", format!("{what}: {error}")))?;
        let length = entries.bytes().len();
        if length > self.limit { Err(self.too_large(what, length)) } else { Ok(entries) }
    }

    pub(crate) fn too_large(&self, what: &str, length: usize) -> Failure {
        Failure::new(
            "PayloadTooLarge",
            format!(
                "{what} takes {length} bytes, and Restate is given at most {} at once: keep large values in a store or a bucket and \
                 their keys in the state, or raise `Endpoint::max_payload` together with the server's `message-size-limit`",
                self.limit
            ),
        )
    }

    /// Does the work on a saver.
    async fn done(
        &self,
        graph: &dyn DynGraph,
        at: &At,
        saver: Arc<dyn Checkpointer>,
        held: Arc<dyn Checkpointer>,
        work: Work,
    ) -> Result<Done, SaverError> {
        let mut done = Done::of(End::Nothing);
        match work {
            Work::Slice(input, piece, part) => done = self.slice(graph, at, saver, (input, piece, part)).await?,
            Work::Wake(piece) => {
                let due = self.due(graph, &held, &at.thread).await?;
                if due.is_some_and(|due| due <= millis(SystemTime::now())) {
                    done = self.slice(graph, at, saver, (DynInput::Continue, piece, None)).await?;
                }
            }
            Work::Update(update) => {
                let config = update.settings.config();
                let updated = graph.update_state(saver, config, update.supersteps).await;
                done.end = End::Updated(match updated {
                    Ok(config) => Ok((config.checkpoint_namespace().to_owned(), config.checkpoint_id())),
                    Err(error) => Err(self.refused(&error)?),
                });
            }
            Work::Look => {}
            Work::Post(letter) => {
                let posted = saver.inbox()?.post(&at.thread, &graph.spec().name, letter).await;
                done.end = End::Posted(match posted {
                    Ok(outcome) => Ok(outcome.is_new()),
                    Err(error @ SaverError::InboxFull { .. }) => Err(Failure::new("MailboxFull", error.to_string())),
                    Err(error) => return Err(error),
                });
            }
        }
        done.due = Due::Known(self.due(graph, &held, &at.thread).await?);
        done.now = millis(SystemTime::now());
        Ok(done)
    }

    /// Adds to the thread that is kept what was done elsewhere.
    pub(crate) async fn absorb(&self, before: &At, after: At, entries: Vec<Entry>) {
        if let Some((saver, whole)) = self.threads.take(&self.name, before, false)
            && replay(&saver, &after.thread, entries).await.is_ok()
        {
            self.threads.keep(&self.name, after, saver, whole);
        }
    }

    /// What the client is told of an error; the error itself if somebody else has to try.
    fn refused(&self, error: &RunError) -> Result<Failure, SaverError> {
        match error.root() {
            RunError::Saver {
                error: cause @ (SaverError::Database { .. } | SaverError::Superseded { .. }), ..
            } if self.saver.is_some() => Err(cause.clone()),
            _ => Ok(self.failure(error)),
        }
    }

    /// A slice of a run.
    async fn slice(
        &self,
        graph: &dyn DynGraph,
        at: &At,
        saver: Arc<dyn Checkpointer>,
        (input, piece, part): (DynInput, Piece, Option<PartialStep>),
    ) -> Result<Done, SaverError> {
        let is_first = piece.slice == 0 && part.is_none();
        let slice = if is_first { Slice::first() } else { Slice::later(piece.progress.clone()) };
        let mut slice = slice
            .stopped_clock(Duration::from_millis(piece.clock), piece.run)
            .part(part.clone())
            .fan_out(self.fan_out.clone().filter(|_| self.saver.is_none()));
        if piece.settings.checkpoint.is_some() && is_first {
            slice = slice.outside_only();
        }
        let slice = Arc::new(slice);
        let mut settings = piece.settings.clone();
        if !is_first {
            settings.checkpoint = None;
        }
        let mut config = drive::with_policy(settings.config(), slice.clone());
        if self.saver.is_some() {
            use hier_core::checkpoint::WhenRunning;
            let policy = settings.when_running.filter(|_| is_first).unwrap_or(WhenRunning::TakeOver);
            config = config.when_running(policy);
        }
        let mut run = DynRun::new(input, config);
        run.saver = Some(saver);
        run.store.clone_from(&self.store);
        run.context = RunContext::new(settings.context.clone());
        run.context.configurable.clone_from(&settings.configurable);
        run.context.thread = Some(at.thread.clone());
        let teller = match &piece.listener {
            Some(listener) => Some(Teller::connect(listener, piece.slice, part.as_ref()).await),
            None => None,
        };
        if let (Some(teller), Some(listener)) = (&teller, &piece.listener) {
            run.modes.clone_from(&listener.modes);
            run.tell = Some(teller.tell());
        }
        let ended = graph.run(run).await;
        if let Some(teller) = teller {
            teller.end().await;
        }
        let mut done = Done::of(End::Nothing);
        done.progress = slice.progress();
        done.end = match (slice.end(), ended) {
            (Some(SliceEnd::Stored), Ok(Outcome::Stopped(_))) => End::Stored,
            (Some(SliceEnd::Remote(remote)), Ok(Outcome::Stopped(_))) => End::Remote(None, remote),
            (cut, ended) if matches!(part, Some(PartialStep::Task { .. })) => End::Task(match (cut, ended) {
                (_, Err(error)) => Err(self.refused(&error)?),
                (_, Ok(Outcome::Interrupted(_))) => Ok(TaskEnd::Asked),
                (None, Ok(Outcome::Stopped(_))) => Ok(TaskEnd::Stopped),
                (_, Ok(_)) => Ok(TaskEnd::Done),
            }),
            (_, Ok(outcome)) => End::Run(Ok(outcome)),
            (_, Err(error)) => End::Run(Err(self.refused(&error)?)),
        };
        Ok(done)
    }

    /// When the thread is due.
    async fn due(
        &self,
        graph: &dyn DynGraph,
        saver: &Arc<dyn Checkpointer>,
        thread: &str,
    ) -> Result<Option<u64>, SaverError> {
        if self.saver.is_some() {
            // The sweeper of the database finds it.
            return Ok(None);
        }
        let for_ever = UNIX_EPOCH + Duration::from_secs(1 << 40);
        let due = saver.inbox()?.due(DueQuery::new(for_ever, graph.names(), 1)).await?;
        Ok(due.first().filter(|due| *due.thread == *thread).map(|due| millis(due.at)))
    }

    /// Does a task of a step on a copy of the thread. What it did in earlier pieces is given.
    pub(crate) async fn task(
        &self,
        call: &TaskCall,
        base: Option<Vec<u8>>,
        earlier: Vec<Entries>,
        progress: Progress,
    ) -> Result<Answer, SaverError> {
        let _slot = self.slot().await;
        let at = &call.at;
        let graph = match self.graph(&at.thread) {
            Ok(graph) => graph,
            Err(failure) => return Ok(Answer::done(Done::of(End::Task(Err(failure))))),
        };
        let saver = match (self.bases.look(&self.name, at), base.as_ref().or(call.base.as_ref())) {
            (Some(saver), _) => saver,
            (None, Some(base)) => {
                let source = Source { head: Some(base.clone()), ..Source::default() };
                let saver = rebuilt(&at.thread, source).await?;
                self.bases.keep(&self.name, at.clone(), saver.clone(), false);
                saver
            }
            (None, None) => return Ok(Answer::Missing),
        };
        let copy = drive::apart(&saver, &at.thread);
        if !earlier.is_empty() {
            let entries = earlier.iter().map(Entries::read).collect::<Result<Vec<_>, _>>();
            let entries = entries.map_err(|error| SaverError::Invalid(format!("what a task did: {error}")))?;
            replay(&copy, &at.thread, entries.concat()).await?;
        }
        let log = ThreadLog::new(copy);
        let piece = Piece { progress, ..call.piece.clone() };
        let slice = (DynInput::Continue, piece, Some(call.part.clone()));
        let mut done = self.slice(&*graph, at, Arc::new(log.clone()), slice).await?;
        match self.entries("what the task wrote", &log) {
            Ok(entries) => done.entries = entries,
            Err(failure) => done = Done::of(End::Task(Err(failure))),
        }
        Ok(Answer::done(done))
    }

    /// The thread, or its history.
    pub(crate) async fn read(
        &self,
        thread: &str,
        source: Source,
        settings: &drive::Settings,
        history: Option<HistoryQuery>,
    ) -> Result<Result<Vec<DynSnapshot>, Failure>, SaverError> {
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
            Err(error) => Err(self.refused(&error)?),
        })
    }
}
