//! A thread as a virtual object of Restate. Only one handler at a time changes the thread. Restate records the result
//! of the handler's work before the handler stores the changes.

mod requests;
mod schedule;

use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};

use hier_core::checkpoint::WhenRunning;
use hier_core::drive::PartialStep;
use hier_core::graph::DynInput;
use restate_sdk::context::{DurableFuturesUnordered, RequestTarget};
use restate_sdk::endpoint::ContextInternal;
use restate_sdk::prelude::*;
use serde::Serialize;
use uuid::Uuid;

use crate::error::RunFailure;
use crate::host::{CacheUpdate, Host};
use crate::message::{self, Message, Packed};
use crate::slice::{RemoteTasks, SliceProgress};
use crate::stored::{ActiveRun, META, ThreadMeta, load};
use crate::wire::{
    Begin, EncodedEntries, Ended, LogEntry, LogSource, SliceContext, TaskCall, TaskDone, TaskEnd, ThreadVersion,
    task_service,
};
use crate::work::{DueTime, SliceWork, ThreadWork, WorkEnd, WorkResult};

/// The maximum number of supersteps that one invocation executes.
const TURNS: u32 = 32;
/// The code of the error with which Restate cancels an invocation.
const CANCELLED: u16 = 409;
/// The time after which an invocation begins no further superstep, in milliseconds.
const LASTS: u64 = 20;

/// A thread in a handler that may change the thread.
pub(crate) struct ThreadObject<'a, 'ctx> {
    ctx: &'a ObjectContext<'ctx>,
    /// Also reads keys that other handlers create while this handler runs.
    state: &'a ContextInternal,
    host: Arc<Host>,
    meta: ThreadMeta,
}

impl<'a, 'ctx> ThreadObject<'a, 'ctx> {
    pub(crate) async fn open(
        ctx: &'a ObjectContext<'ctx>,
        state: &'a ContextInternal,
        host: Arc<Host>,
    ) -> Result<Self, TerminalError> {
        let meta = match ctx.get::<Packed<ThreadMeta>>(META).await? {
            Some(Packed(meta)) => meta,
            None => ThreadMeta {
                // The value is the same in each attempt of the handler.
                epoch: Uuid::from_u64_pair(ctx.random_seed(), 0),
                version: 0,
                head: (0, 0),
                heads: 0,
                since: 0,
                latest_only: host.latest_only,
                expiry: None,
                run: None,
                last: None,
                wake: None,
            },
        };
        Ok(Self { ctx, state, host, meta })
    }

    fn at(&self) -> ThreadVersion {
        ThreadVersion { thread: self.ctx.key().to_owned(), epoch: self.meta.epoch, version: self.meta.version }
    }

    fn store(&self) {
        // `begin` has checked the size with the settings of the run. Only small values change after it.
        self.ctx.set(META, Message::unchecked(&self.meta));
    }

    /// Encodes an answer to a client. If it is too large, the answer is this failure.
    fn answer<T: Serialize>(&self, what: &str, answer: &Result<T, RunFailure>) -> Message<Result<T, RunFailure>> {
        Message::answer(what, answer, self.host.limit)
    }

    fn to_itself(&self, handler: &str) -> RequestTarget {
        RequestTarget::object(&self.host.name, self.ctx.key(), handler)
    }

    async fn work(&mut self, work: ThreadWork) -> Result<WorkResult, TerminalError> {
        let whole = work.needs_history();
        let mut source = None;
        loop {
            let kept = Arc::new(Mutex::new(CacheUpdate::default()));
            let (host, at, work, slot, since) =
                (self.host.clone(), self.at(), work.clone(), kept.clone(), (self.meta.since, self.meta.head.1));
            let loaded: Option<LogSource> = source.take();
            let was_loaded = loaded.is_some();
            let piece = || async move {
                let mut left = CacheUpdate::default();
                let answer = host.work(&at, loaded, since, work, &mut left).await?;
                *slot.lock().unwrap_or_else(PoisonError::into_inner) = left;
                Ok(answer)
            };
            match self.ctx.run(piece).name("superstep").await?.read()? {
                None if was_loaded => {
                    return Err(TerminalError::new("the worker requested a thread that it had already received"));
                }
                None => source = Some(load(self.state, &self.meta, whole).await?),
                Some(done) => {
                    self.log(&done.entries, done.head.as_deref());
                    let kept = std::mem::take(&mut *kept.lock().unwrap_or_else(PoisonError::into_inner));
                    self.host.keep(self.at(), kept);
                    return Ok(done);
                }
            }
        }
    }

    fn log(&mut self, entries: &EncodedEntries, head: Option<&[u8]>) {
        if entries.is_empty() {
            return;
        }
        self.meta.version += 1;
        let Some(head) = head else {
            self.ctx.set(&self.meta.log_key(self.meta.version), entries.bytes().to_vec());
            self.meta.since += entries.bytes().len() as u64;
            return;
        };
        if !self.meta.latest_only {
            self.ctx.set(&self.meta.log_key(self.meta.version), entries.bytes().to_vec());
        }
        self.meta.heads += 1;
        self.meta.head = (self.meta.version, head.len() as u64);
        self.meta.since = 0;
        self.ctx.set(&self.meta.head_key(), head.to_vec());
        // Concurrent readers find the new head through this entry, before the next head replaces the previous one.
        self.store();
    }

    pub(crate) async fn begin(mut self, begin: Begin) -> Result<(), TerminalError> {
        let Begin { run, asked, input, settings, awakeable, listener } = begin;
        let unless_said =
            if matches!(input, DynInput::Command(_)) { WhenRunning::Reject } else { WhenRunning::TakeOver };
        let takes_over = settings.when_running.unwrap_or(unless_said) == WhenRunning::TakeOver;
        let progress = SliceProgress::default();
        let started = ActiveRun { id: run, awakeable, settings, progress, slice: 0, clock: asked, listener };
        let meta = ThreadMeta { last: Some(started.settings.clone()), run: Some(started.clone()), ..self.meta.clone() };
        if let Err(failure) =
            Message::encode("the data of the thread with the settings of the run", &meta, self.host.limit)
        {
            self.resolve(&started, &Err(failure));
            return Ok(());
        }
        let piece = started.piece();
        if self.meta.run.is_some() {
            let refused = if takes_over {
                let work = SliceWork::first(input.clone(), piece.clone());
                let checked = self.check(ThreadWork::Slice(Box::new(work))).await;
                checked.unwrap_or_else(|error| Some(stopped(self.ctx.key(), &error)))
            } else {
                Some(self.busy())
            };
            if let Some(refused) = refused {
                self.resolve(&started, &Err(refused));
                return Ok(());
            }
        }
        if let Some(going) = self.meta.run.take() {
            let reason = format!("thread `{}` was taken over by another run", self.ctx.key());
            self.resolve(&going, &Err(RunFailure::new("Superseded", reason)));
        }
        self.meta.last = Some(started.settings.clone());
        self.meta.run = Some(started);
        let ran = self.slice(SliceWork::first(input, piece)).await;
        self.settle(ran)
    }

    fn busy(&self) -> RunFailure {
        let reason =
            format!("thread `{}` has an active run: wait for the end of the run, or cancel the run", self.ctx.key());
        RunFailure::new("Busy", reason)
    }

    /// Checks the input of a run or an update before it ends the active run. Returns the failure if the input is
    /// refused. Then nothing has changed.
    async fn check(&mut self, work: ThreadWork) -> Result<Option<RunFailure>, TerminalError> {
        match self.work(ThreadWork::Check(Box::new(work))).await?.end {
            WorkEnd::Run(Err(refused)) => Ok(Some(refused)),
            _ => Ok(None),
        }
    }

    /// Executes the next slice of a run, if the run is active.
    pub(crate) async fn continue_run(mut self, run: Uuid) -> Result<(), TerminalError> {
        let Some(going) = self.meta.run.as_ref().filter(|going| going.id == run) else { return Ok(()) };
        let work = SliceWork::later(going.piece(), None);
        let ran = self.slice(work).await;
        self.settle(ran)
    }

    /// Executes supersteps, including their tasks that run elsewhere.
    ///
    /// Several short supersteps share an invocation. After them, the invocation sends the next one. This keeps the
    /// journal short. It also lets other handlers use the thread and another version of the program continue the run.
    async fn slice(&mut self, mut work: SliceWork) -> Result<(), TerminalError> {
        let (mut begun, mut turns) = (None, 0);
        loop {
            let done = self.work(ThreadWork::Slice(Box::new(work))).await?;
            // The time comes from the journal, so that it is the same in each attempt of the handler.
            let lasted = done.now.saturating_sub(*begun.get_or_insert(done.now));
            turns += 1;
            let Some(going) = &mut self.meta.run else { return Ok(()) };
            going.progress = done.progress;
            going.clock = done.now;
            match done.end {
                WorkEnd::Stored if turns < TURNS && lasted < LASTS => {
                    going.slice += 1;
                    work = SliceWork::later(going.piece(), None);
                }
                WorkEnd::Stored => {
                    self.next_turn();
                    return Ok(());
                }
                WorkEnd::Remote(base, remote) => {
                    // The slice number separates the events of this superstep from the events of the next one.
                    going.slice += 1;
                    let piece = going.piece();
                    match self.run_remote(&remote, base, &piece).await? {
                        Ok(stopped) => {
                            let namespace = remote.namespace;
                            work = SliceWork::later(piece, Some(PartialStep::Rest { namespace, stopped }));
                        }
                        Err(failure) => {
                            // The other tasks may have set timers.
                            let done = self.work(ThreadWork::Look).await?;
                            self.end(&Err(failure), done.due, done.now);
                            return Ok(());
                        }
                    }
                }
                WorkEnd::Run(ended) => {
                    self.end(&ended, done.due, done.now);
                    return Ok(());
                }
                other => {
                    let failure = RunFailure::new("RunError", format!("unexpected end of a slice: {other:?}"));
                    self.end(&Err(failure), done.due, done.now);
                    return Ok(());
                }
            }
        }
    }

    /// Executes tasks on other workers and stores their entries, except those of tasks that took a message of another
    /// task. Returns the tasks that stopped at a breakpoint. If tasks failed, returns the failure of the first of them.
    async fn run_remote(
        &mut self,
        remote: &RemoteTasks,
        base: Option<Vec<u8>>,
        piece: &SliceContext,
    ) -> Result<Result<Vec<String>, RunFailure>, TerminalError> {
        // Workers that do not receive the thread read its current state.
        self.store();
        let at = self.at();
        let limit = piece.settings.max_concurrency.unwrap_or(usize::MAX).max(1);
        let message = |task: &String, base: Option<&Vec<u8>>| {
            let part = PartialStep::Task { namespace: remote.namespace.clone(), task: task.clone() };
            let call = TaskCall { at: at.clone(), piece: piece.clone(), part, base: base.cloned() };
            Message::encode("the request of a task", &call, self.host.limit)
        };
        // A worker that receives no thread requests it. The requests of the tasks differ only in the name of the task.
        let longest = remote.tasks.iter().max_by_key(|task| task.len());
        let base = base.filter(|base| longest.is_none_or(|task| message(task, Some(base)).is_ok()));
        if let Some(Err(failure)) = longest.map(|task| message(task, base.as_ref())) {
            return Ok(Err(failure));
        }
        let call = |task: &String| {
            let target = RequestTarget::service(task_service(&self.host.name), "run");
            let message = message(task, base.as_ref()).map_err(|failure| TerminalError::new(failure.message))?;
            Ok::<_, TerminalError>(self.ctx.request::<_, Packed<TaskDone>>(target, message).call())
        };
        let mut waiting = remote.tasks.iter();
        let mut running = DurableFuturesUnordered::new();
        for task in waiting.by_ref().take(limit) {
            running.push(call(task)?);
        }
        let mut ended: Vec<(usize, TaskDone)> = Vec::with_capacity(remote.tasks.len());
        while let Some((place, done)) = running.next().await? {
            ended.push((place, done?.0));
            if let Some(task) = waiting.next() {
                running.push(call(task)?);
            }
        }
        ended.sort_by_key(|(place, _)| *place);
        let mut stopped = Vec::new();
        let mut failed = None;
        let mut entries = Vec::new();
        let mut taken = HashSet::new();
        for (place, done) in ended {
            let read = done.entries.iter().map(EncodedEntries::read).collect::<Result<Vec<_>, _>>();
            let mut read = read
                .map_err(|error| TerminalError::new(format!("cannot read the entries of a task: {error}")))?
                .concat();
            // Each task has its own copy of the inbox. A message belongs to the first task that takes it. The slice
            // with the rest of the superstep repeats the other tasks without this message.
            let own: HashSet<Uuid> = read.iter().flat_map(LogEntry::taken).copied().collect();
            if !taken.is_disjoint(&own) {
                continue;
            }
            taken.extend(own);
            read.iter_mut().for_each(LogEntry::keep_earlier_due);
            entries.extend(read);
            match done.end {
                Ok(TaskEnd::Stopped) => stopped.push(remote.tasks[place].clone()),
                Ok(TaskEnd::Done | TaskEnd::Asked) => {}
                Err(failure) => {
                    failed.get_or_insert(failure);
                }
            }
        }
        if let Err(failure) = self.absorb(entries).await? {
            return Ok(Err(failure));
        }
        Ok(failed.map_or(Ok(stopped), Err))
    }

    /// Appends entries of other workers to the log. Fails if they are too large together.
    async fn absorb(&mut self, entries: Vec<LogEntry>) -> Result<Result<(), RunFailure>, TerminalError> {
        if entries.is_empty() {
            return Ok(Ok(()));
        }
        let before = self.at();
        let stored = EncodedEntries::encode(&entries)
            .map_err(|error| TerminalError::new(format!("cannot encode the entries of tasks: {error}")))?;
        if let Err(failure) = message::check("the data of the tasks", stored.bytes().len(), self.host.limit) {
            return Ok(Err(failure));
        }
        self.log(&stored, None);
        self.host.absorb(&before, self.at(), entries).await;
        Ok(Ok(()))
    }

    fn end(&mut self, ended: &Ended, due: DueTime, now: u64) {
        if let Some(going) = self.meta.run.take() {
            self.resolve(&going, ended);
        }
        self.schedule_wake(due, now);
        self.schedule_expiry();
        self.store();
    }

    /// Ends the run if its invocation fails. No other invocation would continue the run.
    fn settle(&mut self, ran: Result<(), TerminalError>) -> Result<(), TerminalError> {
        if let (Err(error), Some(going)) = (&ran, &self.meta.run) {
            let (failure, clock) = (stopped(self.ctx.key(), error), going.clock);
            self.end(&Err(failure), DueTime::Unknown, clock);
        }
        ran
    }

    /// Sends the result to the caller that waits for the run.
    fn resolve(&self, run: &ActiveRun, ended: &Ended) {
        if let Some(awakeable) = &run.awakeable {
            self.ctx.resolve_awakeable(awakeable, self.answer("the outcome of the run", ended));
        }
    }

    fn next_turn(&mut self) {
        let Some(going) = &mut self.meta.run else { return };
        going.slice += 1;
        let run = going.id;
        self.store();
        self.ctx.request::<_, ()>(self.to_itself("slice"), Packed(run)).send();
    }
}

/// Returns the failure of a run whose invocation failed.
pub(crate) fn stopped(thread: &str, error: &TerminalError) -> RunFailure {
    if error.code() == CANCELLED {
        return RunFailure::new("Cancelled", format!("an operator cancelled an invocation of thread `{thread}`"));
    }
    RunFailure::new("RunError", format!("an invocation of thread `{thread}` failed: {}", error.message()))
}

/// The namespace and the id of the checkpoint that an update has created.
pub(crate) type Updated = Result<(String, Option<Uuid>), RunFailure>;
