//! Runs the tasks of one superstep: polls them in place first, and spreads them over the cores as soon as one blocks its thread.
//!
//! A thread that drives a batch takes one task after the other and polls each once. A finished task costs no more than a call: threads take
//! places without the lock, and add their results together. A task that waits is spawned on the runtime. If a poll takes long, the
//! [watch](super::watch) lets other threads of the runtime drive the rest of the queue.
//!
//! Waiting tasks are spawned a few at a time. The task that a tokio thread has spawned last stays with that thread until it is free, and it
//! is not free while it polls the next task in place.

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

/// The tasks of a batch. Each is made by the thread that polls it first.
pub(crate) trait BatchWork: Send + Sync + 'static {
    /// A task. It resolves to its result, and to data that the next task on its thread can reuse.
    type Task: Future<Output = (Option<Self::Spare>, Self::Result)> + Unpin + Send + 'static;
    /// Data that a finished task leaves for the next one.
    type Spare: Send + 'static;
    type Result: Send + 'static;

    /// Makes the task at this place.
    fn start(&self, place: usize, spare: Option<Self::Spare>) -> Self::Task;
}

/// The tasks of one superstep.
pub(crate) struct TaskBatch<W: BatchWork> {
    count: usize,
    /// The place of the next task. It is past the end if none is left or the batch was cancelled.
    next: AtomicUsize,
    state: Mutex<BatchState<W>>,
    waker: AtomicWaker,
    handle: Option<Handle>,
    tracker: TaskTracker,
    limit: usize,
}

/// Number of tasks that are spawned at a time.
const HANDFUL: usize = 16;

/// A result with its place.
type Placed<W> = (usize, <W as BatchWork>::Result);

struct BatchState<W: BatchWork> {
    /// Makes the tasks. Taken at the end, so that it is dropped with the tasks.
    work: Option<Arc<W>>,
    /// Waiting tasks that are not spawned yet.
    waiting: Vec<(usize, W::Task)>,
    done: Vec<Placed<W>>,
    /// Number of waiting tasks and driving threads. Each thread polls one task.
    running: usize,
    failed: Option<BatchFailure>,
    /// True if the results are no longer wanted. Tasks that are still polled must not continue.
    cancelled: bool,
    /// Number of driving threads in addition to the first.
    helpers: usize,
    aborts: Vec<AbortHandle>,
}

/// The error of a batch without a runtime, or whose runtime was shut down.
pub(crate) struct NoRuntime;

/// The reason why results are missing.
enum BatchFailure {
    NoRuntime,
    /// A value that was dropped with a task panicked. Panics of nodes are results.
    Panicked(Box<dyn std::any::Any + Send>),
}

struct SpawnedTask<W: BatchWork> {
    batch: Arc<TaskBatch<W>>,
    ended: bool,
}

impl<W: BatchWork> Drop for SpawnedTask<W> {
    /// Fails the batch if a runtime that shuts down drops the task before its end.
    fn drop(&mut self) {
        if !self.ended {
            self.batch.fail(BatchFailure::NoRuntime);
        }
    }
}

impl<W: BatchWork> TaskBatch<W> {
    /// Runs `count` tasks, at most `limit` at once, and returns all results with their places, in order. Dropping the future cancels the
    /// unfinished tasks.
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
        // Usually this thread finishes all tasks, and its list becomes the result.
        batch.drive(Vec::with_capacity(count));
        match poll_fn(|context| batch.poll_done(context)).await {
            Ok(()) => {}
            Err(BatchFailure::NoRuntime) => return Err(NoRuntime),
            // It reaches the caller like the panic of a task that is driven in place.
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

    /// Takes tasks and polls each once, until none is left or the limit is reached. `done` is an empty list.
    fn drive(self: &Arc<Self>, mut done: Vec<Placed<W>>) {
        let Some(work) = self.enter() else { return };
        let (mut spare, mut may_go_on) = (None, true);
        while may_go_on && let Some(place) = self.take_place() {
            let mut task = work.start(place, spare.take());
            // A task is ready at once or is spawned, and then it is polled again with another waker.
            match Pin::new(&mut task).poll(&mut Context::from_waker(Waker::noop())) {
                Poll::Ready((left, result)) => {
                    spare = left;
                    done.push((place, result));
                }
                Poll::Pending => may_go_on = self.queue_waiting(place, task),
            }
        }
        drop((spare, work));
        self.leave(done, may_go_on);
        self.hand_over();
    }

    /// Starts driving, if one more task may run.
    fn enter(&self) -> Option<Arc<W>> {
        let mut state = lock(&self.state);
        if state.running >= self.limit {
            return None;
        }
        let work = state.work.clone()?;
        state.running += 1;
        Some(work)
    }

    fn take_place(&self) -> Option<usize> {
        let place = self.next.fetch_add(1, Ordering::Relaxed);
        (place < self.count).then_some(place)
    }

    /// Number of tasks that have not been taken.
    fn queued(&self) -> usize {
        self.count.saturating_sub(self.next.load(Ordering::Relaxed))
    }

    /// Adds the results of a thread that stops driving. `runs` is true if it still counts as running.
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

    /// Queues a waiting task for the runtime. Returns true if one more task may run.
    fn queue_waiting(self: &Arc<Self>, place: usize, task: W::Task) -> bool {
        let mut state = lock(&self.state);
        let Some(handle) = &self.handle else {
            drop(state);
            self.fail(BatchFailure::NoRuntime);
            return true;
        };
        // The cancellation comes before, and the task is dropped here, or after, and finds the task.
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
            // Takes the place of the last spawned task, so that other threads can run that one too.
            spawn(handle, std::future::ready(()));
        }
        may_go_on
    }

    /// Spawns the waiting tasks, without the lock: a runtime that has ended drops a task at once, and dropping takes the lock.
    fn hand_over(self: &Arc<Self>) {
        let Some(handle) = &self.handle else { return };
        let waiting = std::mem::take(&mut lock(&self.state).waiting);
        if waiting.is_empty() {
            return;
        }
        let mut aborts = Vec::with_capacity(waiting.len());
        for (place, task) in waiting {
            let turn = SpawnedTask { batch: self.clone(), ended: false };
            // Tracked as a whole: it drives other tasks after its own.
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
            // The cancellation could not find these tasks yet.
            drop(state);
            aborts.iter().for_each(AbortHandle::abort);
        } else {
            state.aborts.append(&mut aborts);
        }
    }

    /// Adds the result of a task that had to wait, and continues with the queue.
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

    fn fail(&self, failed: BatchFailure) {
        lock(&self.state).failed.get_or_insert(failed);
        self.waker.wake();
    }
}

/// Drops the tasks that have not begun and aborts those that have.
struct CancelOnDrop<'a, W: BatchWork>(&'a TaskBatch<W>);

impl<W: BatchWork> Drop for CancelOnDrop<'_, W> {
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

impl<W: BatchWork> watch::Watched for TaskBatch<W> {
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
