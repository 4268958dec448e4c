//! Runs the tasks of one superstep. Polls them in place first, and spreads them over the cores as soon as one task
//! blocks its thread.
//!
//! A thread that drives a batch takes one task after the other and polls each task once. A finished task costs no more
//! than a call: the thread takes places without the lock, and adds its results together. A task that waits is spawned
//! on the runtime. If a poll takes long, the [watch](super::watch) lets other threads of the runtime drive the rest of
//! the queue.
//!
//! Waiting tasks are spawned a few at a time. A tokio thread runs the task that it spawned last itself, once it is
//! free. Until then, it may poll further tasks in place.

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

/// The tasks of a batch. The thread that polls a task first also makes it.
pub(crate) trait BatchWork: Send + Sync + 'static {
    /// A future that resolves to the result of a task, and to data that the next task on its thread can reuse.
    type Task: Future<Output = (Option<Self::Spare>, Self::Result)> + Unpin + Send + 'static;
    /// Data that the next task on the same thread can reuse.
    type Spare: Send + 'static;
    type Result: Send + 'static;

    fn start(&self, place: usize, spare: Option<Self::Spare>) -> Self::Task;
}

pub(crate) struct TaskBatch<W: BatchWork> {
    count: usize,
    /// The place of the next task. It is past the end if no task is left or the batch was cancelled.
    next: AtomicUsize,
    state: Mutex<BatchState<W>>,
    waker: AtomicWaker,
    handle: Option<Handle>,
    tracker: TaskTracker,
    limit: usize,
}

const HANDFUL: usize = 16;

type Placed<W> = (usize, <W as BatchWork>::Result);

struct BatchState<W: BatchWork> {
    /// Makes the tasks. Taken at the end, so that it is dropped when the run drops the tasks.
    work: Option<Arc<W>>,
    waiting: Vec<(usize, W::Task)>,
    done: Vec<Placed<W>>,
    /// Number of waiting tasks and driving threads. A driving thread counts as one task.
    running: usize,
    failed: Option<BatchFailure>,
    /// True if the results are no longer needed. Tasks that are being polled must not continue.
    cancelled: bool,
    /// Number of driving threads in addition to the first.
    helpers: usize,
    aborts: Vec<AbortHandle>,
}

/// The error of a batch without a runtime, or whose runtime was shut down.
pub(crate) struct NoRuntime;

enum BatchFailure {
    NoRuntime,
    /// A panic while a value of a task was dropped. The panics of nodes are results.
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
    /// Runs `count` tasks, at most `limit` at once. Returns all results with their places, in order. Dropping the
    /// future cancels the unfinished tasks.
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
        // Usually this thread finishes all tasks. Then its list becomes the result.
        batch.drive(Vec::with_capacity(count));
        match poll_fn(|context| batch.poll_done(context)).await {
            Ok(()) => {}
            Err(BatchFailure::NoRuntime) => return Err(NoRuntime),
            // The caller sees the same panic as from a task that is driven in place.
            Err(BatchFailure::Panicked(panic)) => resume_unwind(panic),
        }
        let (done, work) = {
            let mut state = lock(&batch.state);
            (std::mem::take(&mut state.done), state.work.take())
        };
        drop((guard, work));
        Ok(in_order(done))
    }

    /// Takes tasks and polls each task once, until no task is left or the limit is reached. `done` is an empty list.
    fn drive(self: &Arc<Self>, mut done: Vec<Placed<W>>) {
        let Some(work) = self.enter() else { return };
        let (mut spare, mut may_go_on) = (None, true);
        while may_go_on && let Some(place) = self.take_place() {
            let mut task = work.start(place, spare.take());
            // A pending task is spawned and polled again there with another waker, so this waker is never needed.
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

    /// Starts to drive the batch, unless the limit is reached.
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

    fn queued(&self) -> usize {
        self.count.saturating_sub(self.next.load(Ordering::Relaxed))
    }

    /// Adds the results of a thread that stops driving. `runs` is true if the thread still counts in `running`.
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

    /// Queues a waiting task for the runtime. Returns true if the thread may poll one more task.
    fn queue_waiting(self: &Arc<Self>, place: usize, task: W::Task) -> bool {
        let mut state = lock(&self.state);
        let Some(handle) = &self.handle else {
            drop(state);
            self.fail(BatchFailure::NoRuntime);
            return true;
        };
        // A cancellation before this point is visible here, and the task is dropped. A later cancellation finds the
        // task in `waiting`.
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
            // This thread keeps the task that it spawns last for itself. With this empty task in that position, other
            // threads can run all others.
            spawn(handle, &self.tracker, Box::pin(std::future::ready(())));
        }
        may_go_on
    }

    /// Spawns the waiting tasks. The lock is not held: a runtime that has ended drops a task at once, and dropping a
    /// task takes the lock.
    fn hand_over(self: &Arc<Self>) {
        let Some(handle) = &self.handle else { return };
        let waiting = std::mem::take(&mut lock(&self.state).waiting);
        if waiting.is_empty() {
            return;
        }
        let mut aborts = Vec::with_capacity(waiting.len());
        for (place, task) in waiting {
            let turn = SpawnedTask { batch: self.clone(), ended: false };
            // The whole future is tracked, because it also drives other tasks after its own task has ended.
            let work = async move {
                let mut turn = turn;
                let ended = AssertUnwindSafe(async {
                    let (spare, result) = task.await;
                    drop(spare);
                    result
                });
                let result = ended.catch_unwind().await;
                turn.ended = true;
                match result {
                    Ok(result) => turn.batch.hand_in(place, result),
                    Err(panic) => turn.batch.fail(BatchFailure::Panicked(panic)),
                }
            };
            aborts.push(spawn(handle, &self.tracker, Box::pin(work)));
        }
        let mut state = lock(&self.state);
        if state.cancelled {
            // These tasks were not in `aborts` yet when the batch was cancelled.
            drop(state);
            aborts.iter().for_each(AbortHandle::abort);
        } else {
            state.aborts.append(&mut aborts);
        }
    }

    /// Adds the result of a spawned task, and drives the rest of the queue.
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

/// Orders results by their places. Sorts only indices, because a sort of the results would be compiled for each state.
pub(crate) fn in_order<T>(results: Vec<(usize, T)>) -> Vec<(usize, T)> {
    if results.is_sorted_by_key(|(place, _)| *place) {
        return results;
    }
    let mut order: Vec<_> = results.iter().enumerate().map(|(index, (place, _))| (*place, index)).collect();
    order.sort_unstable();
    let mut results: Vec<_> = results.into_iter().map(Some).collect();
    order.into_iter().filter_map(|(_, index)| results[index].take()).collect()
}

/// Drops a value of a cancelled batch. If the drop panics, the caller goes on.
fn drop_safely<T>(value: T) {
    let _ = std::panic::catch_unwind(AssertUnwindSafe(|| drop(value)));
}

/// Cancels the batch: drops the tasks that have not begun, and aborts the others.
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
        aborts.iter().for_each(AbortHandle::abort);
        waiting.into_iter().for_each(drop_safely);
        done.into_iter().for_each(drop_safely);
        drop_safely(work);
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
            state.aborts.push(spawn(handle, &self.tracker, Box::pin(work)));
        }
    }
}
