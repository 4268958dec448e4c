//! A thread: a virtual object. One handler at a time changes it, each in one piece that is recorded before its changes are stored.

mod later;

use std::sync::{Arc, Mutex, PoisonError};

use hier_core::checkpoint::WhenRunning;
use hier_core::drive::PartialStep;
use hier_core::graph::DynInput;
use restate_sdk::context::{DurableFuturesUnordered, RequestTarget};
use restate_sdk::endpoint::ContextInternal;
use restate_sdk::prelude::*;
use uuid::Uuid;

use crate::error::Failure;
use crate::host::{Host, Kept};
use crate::slice::{Progress, RemoteTasks};
use crate::stored::{META, Meta, Running, load};
use crate::wire::{
    At, Begin, Ended, Entries, Entry, Packed, Piece, Post, Source, TaskCall, TaskDone, TaskEnd, UpdateState,
    task_service,
};
use crate::work::{Answer, Done, Due, End, Work};

/// The most turns that one invocation does.
const TURNS: u32 = 32;
/// How long an invocation begins further turns, in milliseconds.
const LASTS: u64 = 20;

/// The thread of a handler that may change it.
pub(crate) struct Thread<'a, 'ctx> {
    ctx: &'a ObjectContext<'ctx>,
    /// Reads keys that are made while the handler runs.
    state: &'a ContextInternal,
    host: Arc<Host>,
    meta: Meta,
}

impl<'a, 'ctx> Thread<'a, 'ctx> {
    pub(crate) async fn open(
        ctx: &'a ObjectContext<'ctx>,
        state: &'a ContextInternal,
        host: Arc<Host>,
    ) -> Result<Self, TerminalError> {
        let meta = match ctx.get::<Packed<Meta>>(META).await? {
            Some(Packed(meta)) => meta,
            None => Meta {
                // The same if the handler is run again.
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

    fn at(&self) -> At {
        At { thread: self.ctx.key().to_owned(), epoch: self.meta.epoch, version: self.meta.version }
    }

    fn store(&self) {
        self.ctx.set(META, Packed(self.meta.clone()));
    }

    fn to_itself(&self, handler: &str) -> RequestTarget {
        RequestTarget::object(&self.host.name, self.ctx.key(), handler)
    }

    /// Does a piece of work, and adds to the log what came of it.
    async fn work(&mut self, work: Work) -> Result<Done, TerminalError> {
        let whole = work.needs_history();
        let mut source = None;
        loop {
            let kept = Arc::new(Mutex::new(Kept::default()));
            let (host, at, work, slot, since) =
                (self.host.clone(), self.at(), work.clone(), kept.clone(), (self.meta.since, self.meta.head.1));
            let loaded: Option<Source> = source.take();
            let was_loaded = loaded.is_some();
            let piece = || async move {
                let mut left = Kept::default();
                let answer = host.work(&at, loaded, since, work, &mut left).await?;
                *slot.lock().unwrap_or_else(PoisonError::into_inner) = left;
                Ok(Packed(answer))
            };
            let Packed(answer) = self.ctx.run(piece).name("superstep").await?;
            match answer {
                Answer::Missing if was_loaded => return Err(TerminalError::new("a thread that was loaded is missing")),
                Answer::Missing => source = Some(load(self.state, &self.meta, whole).await?),
                Answer::Done(done) => {
                    self.log(&done.entries, done.head.as_deref());
                    let kept = std::mem::take(&mut *kept.lock().unwrap_or_else(PoisonError::into_inner));
                    self.host.keep(self.at(), kept);
                    return Ok(*done);
                }
            }
        }
    }

    /// Adds to the log.
    fn log(&mut self, entries: &Entries, head: Option<&[u8]>) {
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
        // Who reads beside this handler finds the new head by it, before another one takes the place of the old.
        self.store();
    }

    /// Begins a run, and does its first slice.
    pub(crate) async fn begin(mut self, begin: Begin) -> Result<(), TerminalError> {
        let Begin { run, asked, input, settings, awakeable, listener } = begin;
        let unless_said =
            if matches!(input, DynInput::Command(_)) { WhenRunning::Reject } else { WhenRunning::TakeOver };
        if let Some(going) = self.meta.run.take() {
            if settings.when_running.unwrap_or(unless_said) == WhenRunning::TakeOver {
                let reason = format!("thread `{}` was taken over by another run", self.ctx.key());
                self.tell(&going, Err(Failure::new("Superseded", reason)));
            } else {
                self.meta.run = Some(going);
                self.store();
                let reason = format!("thread `{}` is being run: wait for its end, or cancel it", self.ctx.key());
                let refused = Running {
                    id: run,
                    awakeable,
                    settings,
                    progress: Progress::default(),
                    slice: 0,
                    clock: asked,
                    listener,
                };
                self.tell(&refused, Err(Failure::new("Busy", reason)));
                return Ok(());
            }
        }
        let going =
            Running { id: run, awakeable, settings, progress: Progress::default(), slice: 0, clock: asked, listener };
        let work = Work::Slice(input, going.piece(), None);
        self.meta.last = Some(going.settings.clone());
        self.meta.run = Some(going);
        self.slice(work).await
    }

    /// Does the next slice of a run, if it is still going.
    pub(crate) async fn go_on(mut self, run: Uuid) -> Result<(), TerminalError> {
        let Some(going) = self.meta.run.as_ref().filter(|going| going.id == run) else { return Ok(()) };
        let work = Work::Slice(DynInput::Continue, going.piece(), None);
        self.slice(work).await
    }

    /// Does turns: supersteps, each with what of it is done elsewhere. Short ones follow each other in one invocation; then it sends
    /// itself the next, so that the journal stays short, other handlers get the thread, and another version of the program can go on.
    async fn slice(&mut self, mut work: Work) -> Result<(), TerminalError> {
        let (mut begun, mut turns) = (None, 0);
        loop {
            let done = self.work(work).await?;
            // Read from the journal: the same if the handler is run again.
            let lasted = done.now.saturating_sub(*begun.get_or_insert(done.now));
            turns += 1;
            let Some(going) = &mut self.meta.run else { return Ok(()) };
            going.progress = done.progress;
            going.clock = done.now;
            match done.end {
                End::Stored if turns < TURNS && lasted < LASTS => {
                    going.slice += 1;
                    work = Work::Slice(DynInput::Continue, going.piece(), None);
                }
                End::Stored => {
                    self.next_turn();
                    return Ok(());
                }
                End::Remote(base, remote) => {
                    // What is told of one step is told from that of the next by the slice.
                    going.slice += 1;
                    let piece = going.piece();
                    match self.run_remote(&remote, base, &piece).await? {
                        Ok(stopped) => {
                            let namespace = remote.namespace;
                            work =
                                Work::Slice(DynInput::Continue, piece, Some(PartialStep::Rest { namespace, stopped }));
                        }
                        Err(failure) => {
                            self.end(Err(failure), done.due, done.now);
                            return Ok(());
                        }
                    }
                }
                End::Run(ended) => {
                    self.end(ended, done.due, done.now);
                    return Ok(());
                }
                other => {
                    let failure = Failure::new("RunError", format!("a slice ended as none does: {other:?}"));
                    self.end(Err(failure), done.due, done.now);
                    return Ok(());
                }
            }
        }
    }

    /// Has tasks done by workers, and stores what they did. Which of them stopped at a breakpoint inside; or why the first in order
    /// failed.
    async fn run_remote(
        &mut self,
        remote: &RemoteTasks,
        base: Option<Vec<u8>>,
        piece: &Piece,
    ) -> Result<Result<Vec<String>, Failure>, TerminalError> {
        // Workers that are not given the thread read it: as it is now.
        self.store();
        let at = self.at();
        let limit = piece.settings.max_concurrency.unwrap_or(usize::MAX).max(1);
        let call = |task: &String| {
            let part = PartialStep::Task { namespace: remote.namespace.clone(), task: task.clone() };
            let call = TaskCall { at: at.clone(), piece: piece.clone(), part, base: base.clone() };
            let target = RequestTarget::service(task_service(&self.host.name), "run");
            self.ctx.request::<_, Packed<TaskDone>>(target, Packed(call)).call()
        };
        let mut waiting = remote.tasks.iter();
        let mut running = DurableFuturesUnordered::new();
        for task in waiting.by_ref().take(limit) {
            running.push(call(task));
        }
        let mut ended: Vec<(usize, TaskDone)> = Vec::with_capacity(remote.tasks.len());
        while let Some((place, done)) = running.next().await? {
            ended.push((place, done?.0));
            if let Some(task) = waiting.next() {
                running.push(call(task));
            }
        }
        ended.sort_by_key(|(place, _)| *place);
        let mut stopped = Vec::new();
        let mut failed = None;
        let mut entries = Vec::new();
        for (place, done) in ended {
            for piece in &done.entries {
                let read = piece.read().map_err(|error| TerminalError::new(format!("what a task did: {error}")))?;
                entries.extend(read);
            }
            match done.end {
                Ok(TaskEnd::Stopped) => stopped.push(remote.tasks[place].clone()),
                Ok(TaskEnd::Done | TaskEnd::Asked) => {}
                Err(failure) => {
                    failed.get_or_insert(failure);
                }
            }
        }
        self.absorb(entries).await?;
        Ok(failed.map_or(Ok(stopped), Err))
    }

    /// Adds to the log what was done elsewhere.
    async fn absorb(&mut self, entries: Vec<Entry>) -> Result<(), TerminalError> {
        if entries.is_empty() {
            return Ok(());
        }
        let before = self.at();
        let stored = Entries::of(&entries).map_err(|error| TerminalError::new(format!("what tasks did: {error}")))?;
        self.log(&stored, None);
        self.host.absorb(&before, self.at(), entries).await;
        Ok(())
    }

    /// Ends the run.
    fn end(&mut self, ended: Ended, due: Due, now: u64) {
        if let Some(going) = self.meta.run.take() {
            self.tell(&going, ended);
        }
        self.look_later(due, now);
        self.live_on();
        self.store();
    }

    /// Tells who waits for a run.
    fn tell(&self, run: &Running, ended: Ended) {
        if let Some(awakeable) = &run.awakeable {
            self.ctx.resolve_awakeable(awakeable, Packed(ended));
        }
    }

    /// Sends itself the next slice of the run.
    fn next_turn(&mut self) {
        let Some(going) = &mut self.meta.run else { return };
        going.slice += 1;
        let run = going.id;
        self.store();
        self.ctx.request::<_, ()>(self.to_itself("slice"), Packed(run)).send();
    }

    pub(crate) async fn update(mut self, update: UpdateState) -> Result<Packed<Updated>, TerminalError> {
        if let Some(going) = self.meta.run.take() {
            if update.settings.when_running != Some(WhenRunning::TakeOver) {
                let reason = format!("thread `{}` is being run: wait for its end, or cancel it", self.ctx.key());
                return Ok(Packed(Err(Failure::new("Busy", reason))));
            }
            let reason = format!("thread `{}` was taken over by an update", self.ctx.key());
            self.tell(&going, Err(Failure::new("Superseded", reason)));
        }
        let done = self.work(Work::Update(update)).await?;
        self.look_later(done.due, done.now);
        self.store();
        Ok(Packed(match done.end {
            End::Updated(updated) => updated,
            End::Run(Err(failure)) => Err(failure),
            other => Err(Failure::new("RunError", format!("an update ended as none does: {other:?}"))),
        }))
    }

    pub(crate) async fn post(mut self, post: Post) -> Result<Packed<Result<bool, Failure>>, TerminalError> {
        let done = self.work(Work::Post(post.letter)).await?;
        self.look_later(done.due, done.now);
        self.store();
        Ok(Packed(match done.end {
            End::Posted(posted) => posted,
            End::Run(Err(failure)) => Err(failure),
            other => Err(Failure::new("RunError", format!("a letter ended as none does: {other:?}"))),
        }))
    }

    /// Ends the current run after its superstep, or only this run if given. Returns true if there was one.
    pub(crate) async fn cancel(mut self, run: Option<Uuid>) -> Result<Packed<bool>, TerminalError> {
        let is_meant = |going: &mut Running| run.is_none_or(|run| run == going.id);
        let Some(going) = self.meta.run.take_if(is_meant) else { return Ok(Packed(false)) };
        let reason = format!("the run of thread `{}` was cancelled", self.ctx.key());
        // Work that became due meanwhile was deferred to the end of the run.
        let done = self.work(Work::Look).await?;
        self.meta.run = Some(going);
        self.end(Err(Failure::new("Cancelled", reason)), done.due, done.now);
        Ok(Packed(true))
    }

    /// Forgets the thread.
    pub(crate) fn delete(self) {
        if let Some(going) = &self.meta.run {
            let reason = format!("thread `{}` was deleted", self.ctx.key());
            self.tell(going, Err(Failure::new("Superseded", reason)));
        }
        self.host.threads.forget(&self.host.name, self.ctx.key());
        self.ctx.clear_all();
    }
}

/// The namespace and the id of the checkpoint that an update made.
pub(crate) type Updated = Result<(String, Option<Uuid>), Failure>;
