//! The tasks of one superstep: polled in place first, and spread over the cores as soon as one keeps its thread.
//!
//! Whoever drives a batch takes one task after the other and polls it once. A task that is done then cost no more than a
//! call: a place is taken without the lock, and the results of a thread are handed in together. A task that waits is handed
//! to the runtime, so that it goes on by itself on any core. If a poll takes long, the [watch](super::watch) notices and lets
//! other threads of the runtime drive the rest of the queue meanwhile.
//!
//! Tasks are handed over a few at a time, because the last task that a thread of tokio spawns stays with that thread
//! until it is free, which it is not while it polls the next task in place.

use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, resume_unwind};
use std::pin::Pin;
use std::sync::{Arc, Weak};
use std::task::{Context, Poll, Waker};

use futures_util::FutureExt;
use futures_util::task::AtomicWaker;
use tokio_util::task::TaskTracker;

use super::runtime::{AbortHandle, Handle, current, spawn, workers};
use super::watch;
use crate::sync::{AtomicUsize, Mutex, Ordering, lock};

/// What a batch is to do: tasks, each made when its turn comes, on the thread that polls it first.
pub(crate) trait Work: Send + Sync + 'static {
    /// A task: it resolves to its result, and to what the next one on its thread can use again.
    type Task: Future<Output = (Option<Self::Spare>, Self::Result)> + Unpin + Send + 'static;
    /// What a task that has ended leaves for the next one.
    type Spare: Send + 'static;
    /// What comes of a task.
    type Result: Send + 'static;

    /// Makes the task at this place.
    fn start(&self, place: usize, spare: Option<Self::Spare>) -> Self::Task;
}

/// The tasks of one superstep.
pub(crate) struct Batch<W: Work> {
    count: usize,
    /// The place of the next task; beyond the last one, if none is left or the batch was cancelled.
    next: AtomicUsize,
    state: Mutex<BatchState<W>>,
    waker: AtomicWaker,
    handle: Option<Handle>,
    tracker: TaskTracker,
    limit: usize,
}

/// How many tasks are handed to the runtime at a time.
const HANDFUL: usize = 16;

/// A result and its place.
type Placed<W> = (usize, <W as Work>::Result);

struct BatchState<W: Work> {
    /// Makes the tasks. Taken away at the end, so that nothing it holds is held longer than the tasks.
    work: Option<Arc<W>>,
    /// Tasks that wait and are still to be handed to the runtime.
    waiting: Vec<(usize, W::Task)>,
    done: Vec<Placed<W>>,
    /// Tasks that wait, and threads that drive: each polls one task.
    running: usize,
    failed: Option<BatchFailure>,
    /// Nobody waits for the results any more: what is still polled somewhere must not go on by itself.
    cancelled: bool,
    /// Threads that drive beside the first, because it is kept.
    helpers: usize,
    aborts: Vec<AbortHandle>,
}

/// A batch needs a runtime and there is none, or it has been shut down.
pub(crate) struct NoRuntime;

/// Why results will be missing.
enum BatchFailure {
    NoRuntime,
    /// Something that was dropped with a task panicked. The panics of nodes are results.
    Panicked(Box<dyn std::any::Any + Send>),
}

/// A task that the runtime drives.
struct SpawnedTask<W: Work> {
    batch: Arc<Batch<W>>,
    ended: bool,
}

impl<W: Work> Drop for SpawnedTask<W> {
    /// A task that was dropped before it has ended, by a runtime that shuts down, hands in nothing any more: who waits for
    /// the batch is told.
    fn drop(&mut self) {
        if !self.ended {
            self.batch.fail(BatchFailure::NoRuntime);
        }
    }
}

impl<W: Work> Batch<W> {
    /// Runs `count` tasks, at most `limit` at once, and returns their results with their places, in order: none is missing.
    /// Dropping the future cancels those that have not ended.
    pub(crate) async fn run(
        count: usize,
        work: W,
        limit: usize,
        tracker: &TaskTracker,
    ) -> Result<Vec<Placed<W>>, NoRuntime> {
        let batch = Arc::new(Self {
            count,
            next: AtomicUsize::new(0),
            state: Mutex::new(BatchState {
                work: Some(Arc::new(work)),
                waiting: Vec::new(),
                done: Vec::new(),
                running: 0,
                failed: None,
                cancelled: false,
                helpers: 0,
                aborts: Vec::new(),
            }),
            waker: AtomicWaker::new(),
            handle: current(),
            tracker: tracker.clone(),
            limit,
        });
        let guard = CancelOnDrop(&batch);
        if batch.handle.as_ref().is_some_and(|handle| workers(handle) > 1) {
            watch::add(Arc::downgrade(&batch) as Weak<dyn watch::Watched>);
        }
        // Most often this thread ends all tasks, and its list is the one that is returned.
        batch.drive(Vec::with_capacity(count));
        match poll_fn(|context| batch.poll_done(context)).await {
            Ok(()) => {}
            Err(BatchFailure::NoRuntime) => return Err(NoRuntime),
            // It reaches the caller as that of a task does that is driven in place.
            Err(BatchFailure::Panicked(panic)) => resume_unwind(panic),
        }
        let (mut done, work) = {
            let mut state = lock(&batch.state);
            (std::mem::take(&mut state.done), state.work.take())
        };
        drop((guard, work));
        if !done.is_sorted_by_key(|(place, _)| *place) {
            done.sort_unstable_by_key(|(place, _)| *place);
        }
        Ok(done)
    }

    /// Takes tasks and polls each once, until none are left or as many run as may. `done` is an empty list.
    fn drive(self: &Arc<Self>, mut done: Vec<Placed<W>>) {
        let Some(work) = self.enter() else { return };
        let (mut spare, mut may_go_on) = (None, true);
        while may_go_on && let Some(place) = self.take() {
            let mut task = work.start(place, spare.take());
            // Ready at once or handed to the runtime, which polls again with a waker of its own.
            match Pin::new(&mut task).poll(&mut Context::from_waker(Waker::noop())) {
                Poll::Ready((left, result)) => {
                    spare = left;
                    done.push((place, result));
                }
                Poll::Pending => may_go_on = self.waits(place, task),
            }
        }
        drop((spare, work));
        self.leave(done, may_go_on);
        self.hand_over();
    }

    /// Begins to drive, if one more task may run.
    fn enter(&self) -> Option<Arc<W>> {
        let mut state = lock(&self.state);
        if state.running >= self.limit {
            return None;
        }
        let work = state.work.clone()?;
        state.running += 1;
        Some(work)
    }

    /// The place of the next task, if one is left.
    fn take(&self) -> Option<usize> {
        let place = self.next.fetch_add(1, Ordering::Relaxed);
        (place < self.count).then_some(place)
    }

    /// How many tasks have not been taken.
    fn queued(&self) -> usize {
        self.count.saturating_sub(self.next.load(Ordering::Relaxed))
    }

    /// Hands in the results of a thread that does not drive any more. `runs`: it counts as running.
    fn leave(&self, mut done: Vec<Placed<W>>, runs: bool) {
        let mut state = lock(&self.state);
        state.running -= usize::from(runs);
        if state.done.is_empty() {
            std::mem::swap(&mut state.done, &mut done);
        } else {
            state.done.append(&mut done);
        }
        let is_done = state.done.len() == self.count;
        drop(state);
        if is_done {
            self.waker.wake();
        }
    }

    /// Lets the runtime go on with a task that waits. Whether one more may run beside it.
    fn waits(self: &Arc<Self>, place: usize, task: W::Task) -> bool {
        let mut state = lock(&self.state);
        let Some(handle) = &self.handle else {
            drop(state);
            self.fail(BatchFailure::NoRuntime);
            return true;
        };
        // A cancellation comes before, and the task is dropped here, or after, and finds it.
        if state.cancelled {
            return true;
        }
        state.waiting.push((place, task));
        let is_full = state.waiting.len() >= HANDFUL;
        let may_go_on = state.running < self.limit;
        state.running += usize::from(may_go_on);
        drop(state);
        if is_full {
            self.hand_over();
            // Takes the place of the last task, so that other threads can have that too.
            spawn(handle, std::future::ready(()));
        }
        may_go_on
    }

    /// Hands the tasks that wait to the runtime. The lock is not held meanwhile: a runtime that has ended drops a task as
    /// soon as it is given one, and a task that is dropped takes the lock.
    fn hand_over(self: &Arc<Self>) {
        let Some(handle) = &self.handle else { return };
        let waiting = std::mem::take(&mut lock(&self.state).waiting);
        if waiting.is_empty() {
            return;
        }
        let mut aborts = Vec::with_capacity(waiting.len());
        for (place, task) in waiting {
            let turn = SpawnedTask { batch: self.clone(), ended: false };
            // Tracked as a whole: it goes on with other tasks when its own has ended.
            let work = async move {
                let mut turn = turn;
                let result = AssertUnwindSafe(task).catch_unwind().await;
                turn.ended = true;
                match result {
                    Ok((spare, result)) => {
                        drop(spare);
                        turn.batch.hand_in(place, result);
                    }
                    Err(panic) => turn.batch.fail(BatchFailure::Panicked(panic)),
                }
            };
            aborts.push(spawn(handle, self.tracker.track_future(work)));
        }
        let mut state = lock(&self.state);
        if state.cancelled {
            // The cancellation came before these could be found.
            drop(state);
            aborts.iter().for_each(AbortHandle::abort);
        } else {
            state.aborts.append(&mut aborts);
        }
    }

    /// Hands in the result of a task that had to wait, and goes on with those for which there was no room.
    fn hand_in(self: &Arc<Self>, place: usize, result: W::Result) {
        self.leave(vec![(place, result)], true);
        if self.queued() > 0 {
            let driven = std::panic::catch_unwind(AssertUnwindSafe(|| self.drive(Vec::new())));
            if let Err(panic) = driven {
                self.fail(BatchFailure::Panicked(panic));
            }
        }
    }

    fn poll_done(&self, context: &mut Context<'_>) -> Poll<Result<(), BatchFailure>> {
        self.waker.register(context.waker());
        let mut state = lock(&self.state);
        match state.failed.take() {
            _ if state.done.len() == self.count => Poll::Ready(Ok(())),
            Some(failed) => Poll::Ready(Err(failed)),
            None => Poll::Pending,
        }
    }

    /// Not all results will come.
    fn fail(&self, failed: BatchFailure) {
        lock(&self.state).failed.get_or_insert(failed);
        self.waker.wake();
    }
}

/// Drops the tasks that have not begun and aborts those that have.
struct CancelOnDrop<'a, W: Work>(&'a Batch<W>);

impl<W: Work> Drop for CancelOnDrop<'_, W> {
    fn drop(&mut self) {
        self.0.next.store(self.0.count, Ordering::Relaxed);
        let mut state = lock(&self.0.state);
        state.cancelled = true;
        let waiting = std::mem::take(&mut state.waiting);
        let aborts = std::mem::take(&mut state.aborts);
        let (work, done) = (state.work.take(), std::mem::take(&mut state.done));
        drop(state);
        drop((waiting, work, done));
        aborts.iter().for_each(AbortHandle::abort);
    }
}

impl<W: Work> watch::Watched for Batch<W> {
    fn taken(&self) -> usize {
        self.next.load(Ordering::Relaxed)
    }

    fn help(self: Arc<Self>) {
        let Some(handle) = &self.handle else { return };
        self.hand_over();
        let mut state = lock(&self.state);
        let queued = self.queued().min(self.limit.saturating_sub(state.running));
        let wanted = queued.min(workers(handle).saturating_sub(1));
        while state.helpers < wanted {
            state.helpers += 1;
            let batch = self.clone();
            let work = async move {
                let helped = AssertUnwindSafe(async { batch.drive(Vec::new()) }).catch_unwind().await;
                lock(&batch.state).helpers -= 1;
                if let Err(panic) = helped {
                    batch.fail(BatchFailure::Panicked(panic));
                }
            };
            state.aborts.push(spawn(handle, self.tracker.track_future(work)));
        }
    }
}
