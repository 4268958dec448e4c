//! The tasks of one superstep: polled in place first, and spread over the cores as soon as one keeps its thread.
//!
//! Whoever drives a batch takes one task after the other and polls it once. A task that is done then cost no more than a
//! call. One that waits is handed to the runtime, so that it goes on by itself on any core. If a poll takes long, the
//! [watch](super::watch) notices and lets other threads of the runtime drive the rest of the queue meanwhile.
//!
//! Tasks are handed over a few at a time, because the last task that a thread of tokio spawns stays with that thread
//! until it is free, which it is not while it polls the next task in place.

use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, resume_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::task::{Context, Poll, Waker};

use futures_core::future::BoxFuture;
use futures_util::FutureExt;
use futures_util::task::AtomicWaker;
use tokio_util::task::TaskTracker;

use super::runtime::{AbortHandle, Handle, current, spawn, workers};
use super::watch;
use crate::sync::{Mutex, lock};

/// The tasks of one superstep, each made when its turn comes, with results of type `T`.
pub(crate) struct Batch<T> {
    state: Mutex<State<T>>,
    /// How many tasks have been taken from the queue so far: what the watch looks at.
    taken: AtomicUsize,
    waker: AtomicWaker,
    handle: Option<Handle>,
    tracker: TaskTracker,
    limit: usize,
}

/// How many tasks are handed to the runtime at a time.
const HANDFUL: usize = 16;

struct State<T> {
    /// How many tasks have not been started.
    queued: usize,
    /// Makes the next task. Taken away at the end, so that nothing it holds is held longer than the tasks.
    start: Option<Start<T>>,
    /// Tasks that wait and are still to be handed to the runtime.
    waiting: Vec<(usize, BoxFuture<'static, T>)>,
    results: Vec<Option<T>>,
    running: usize,
    missing: usize,
    failed: Option<Failed>,
    /// Nobody waits for the results any more: what is still polled somewhere must not go on by itself.
    cancelled: bool,
    /// Threads that drive beside the first, because it is kept.
    helpers: usize,
    aborts: Vec<AbortHandle>,
}

/// Makes the next task.
type Start<T> = Box<dyn FnMut() -> Option<BoxFuture<'static, T>> + Send>;

/// A batch needs a runtime and there is none, or it has been shut down.
pub(crate) struct Stranded;

/// Why results will be missing.
enum Failed {
    Stranded,
    /// Something that was dropped with a task panicked. The panics of nodes are results.
    Panicked(Box<dyn std::any::Any + Send>),
}

/// A task that the runtime drives.
struct Turn<T> {
    batch: Arc<Batch<T>>,
    ended: bool,
}

impl<T> Drop for Turn<T> {
    /// A task that was dropped before it has ended, by a runtime that shuts down, hands in nothing any more: who waits for
    /// the batch is told.
    fn drop(&mut self) {
        if !self.ended {
            self.batch.fail(Failed::Stranded);
        }
    }
}

impl<T: Send + 'static> Batch<T> {
    /// Runs `count` tasks, at most `limit` at once, and returns their results in order: none is missing. Dropping the future cancels those
    /// that have not ended.
    pub(crate) async fn run(
        count: usize,
        start: impl FnMut() -> Option<BoxFuture<'static, T>> + Send + 'static,
        limit: usize,
        tracker: &TaskTracker,
    ) -> Result<Vec<Option<T>>, Stranded> {
        let batch = Arc::new(Self {
            state: Mutex::new(State {
                queued: count,
                start: Some(Box::new(start)),
                waiting: Vec::new(),
                results: std::iter::repeat_with(|| None).take(count).collect(),
                running: 0,
                missing: count,
                failed: None,
                cancelled: false,
                helpers: 0,
                aborts: Vec::new(),
            }),
            taken: AtomicUsize::new(0),
            waker: AtomicWaker::new(),
            handle: current(),
            tracker: tracker.clone(),
            limit,
        });
        let guard = CancelOnDrop(&batch);
        if batch.handle.as_ref().is_some_and(|handle| workers(handle) > 1) {
            watch::add(Arc::downgrade(&batch) as Weak<dyn watch::Watched>);
        }
        batch.drive();
        match poll_fn(|context| batch.poll_done(context)).await {
            Ok(()) => {}
            Err(Failed::Stranded) => return Err(Stranded),
            // It reaches the caller as that of a task does that is driven in place.
            Err(Failed::Panicked(panic)) => resume_unwind(panic),
        }
        let (results, start) = {
            let mut state = lock(&batch.state);
            (std::mem::take(&mut state.results), state.start.take())
        };
        drop((guard, start));
        Ok(results)
    }

    /// Takes tasks and polls each once, until none are left or as many run as may.
    fn drive(self: &Arc<Self>) {
        let mut done = None;
        while let Some((place, mut task)) = self.exchange(done.take()) {
            // Ready at once or handed to the runtime, which polls again with a waker of its own.
            match task.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
                Poll::Ready(result) => done = Some((place, result)),
                Poll::Pending => self.waits(place, task),
            }
        }
        self.hand_over();
    }

    /// Hands in a result and takes the next task.
    fn exchange(&self, done: Option<(usize, T)>) -> Option<(usize, BoxFuture<'static, T>)> {
        self.taken.fetch_add(1, Ordering::Relaxed);
        let mut state = lock(&self.state);
        if let Some((place, result)) = done {
            state.finish(place, result);
            if state.missing == 0 {
                drop(state);
                self.waker.wake();
                return None;
            }
        }
        if state.running >= self.limit {
            return None;
        }
        state.start_next()
    }

    /// Lets the runtime go on with a task that waits.
    fn waits(self: &Arc<Self>, place: usize, task: BoxFuture<'static, T>) {
        let mut state = lock(&self.state);
        let Some(handle) = &self.handle else {
            drop(state);
            return self.fail(Failed::Stranded);
        };
        // A cancellation comes before, and the task is dropped here, or after, and finds it.
        if state.cancelled {
            return;
        }
        state.waiting.push((place, task));
        let is_full = state.waiting.len() >= HANDFUL;
        drop(state);
        if is_full {
            self.hand_over();
            // Takes the place of the last task, so that other threads can have that too.
            spawn(handle, std::future::ready(()));
        }
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
            let turn = Turn { batch: self.clone(), ended: false };
            // Tracked as a whole: it goes on with other tasks when its own has ended.
            let work = async move {
                let mut turn = turn;
                let result = AssertUnwindSafe(task).catch_unwind().await;
                turn.ended = true;
                match result {
                    Ok(result) => turn.batch.hand_in(place, result),
                    Err(panic) => turn.batch.fail(Failed::Panicked(panic)),
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
    fn hand_in(self: &Arc<Self>, place: usize, result: T) {
        let more = {
            let mut state = lock(&self.state);
            state.finish(place, result);
            state.queued > 0
        };
        if more {
            let driven = std::panic::catch_unwind(AssertUnwindSafe(|| self.drive()));
            if let Err(panic) = driven {
                self.fail(Failed::Panicked(panic));
            }
        }
        self.waker.wake();
    }

    fn poll_done(&self, context: &mut Context<'_>) -> Poll<Result<(), Failed>> {
        self.waker.register(context.waker());
        let mut state = lock(&self.state);
        match state.failed.take() {
            _ if state.missing == 0 => Poll::Ready(Ok(())),
            Some(failed) => Poll::Ready(Err(failed)),
            None => Poll::Pending,
        }
    }
}

impl<T> Batch<T> {
    /// Not all results will come.
    fn fail(&self, failed: Failed) {
        lock(&self.state).failed.get_or_insert(failed);
        self.waker.wake();
    }
}

impl<T> State<T> {
    fn start_next(&mut self) -> Option<(usize, BoxFuture<'static, T>)> {
        let start = self.start.as_mut().filter(|_| self.queued > 0)?;
        let task = start()?;
        let place = self.results.len() - self.queued;
        self.queued -= 1;
        self.running += 1;
        Some((place, task))
    }

    fn finish(&mut self, place: usize, result: T) {
        self.running -= 1;
        self.missing -= 1;
        if let Some(slot) = self.results.get_mut(place) {
            *slot = Some(result);
        }
    }
}

/// Drops the tasks that have not begun and aborts those that have.
struct CancelOnDrop<'a, T>(&'a Batch<T>);

impl<T> Drop for CancelOnDrop<'_, T> {
    fn drop(&mut self) {
        let mut state = lock(&self.0.state);
        state.cancelled = true;
        state.queued = 0;
        let waiting = std::mem::take(&mut state.waiting);
        let aborts = std::mem::take(&mut state.aborts);
        let start = state.start.take();
        drop(state);
        drop((waiting, start));
        aborts.iter().for_each(AbortHandle::abort);
    }
}

impl<T: Send + 'static> watch::Watched for Batch<T> {
    fn taken(&self) -> usize {
        self.taken.load(Ordering::Relaxed)
    }

    fn help(self: Arc<Self>) {
        let Some(handle) = &self.handle else { return };
        self.hand_over();
        let mut state = lock(&self.state);
        let queued = state.queued.min(self.limit.saturating_sub(state.running));
        let wanted = queued.min(workers(handle).saturating_sub(1));
        while state.helpers < wanted {
            state.helpers += 1;
            let batch = self.clone();
            let work = async move {
                let helped = AssertUnwindSafe(async { batch.drive() }).catch_unwind().await;
                lock(&batch.state).helpers -= 1;
                if let Err(panic) = helped {
                    batch.fail(Failed::Panicked(panic));
                }
            };
            state.aborts.push(spawn(handle, self.tracker.track_future(work)));
        }
    }
}
