//! The queue of a stream: bounded, so that a consumer that is slow, or takes nothing at all, never blocks the run and
//! never makes it hold more than so much.

use std::collections::VecDeque;
use std::sync::Mutex;
use std::task::{Context, Poll};

use futures_util::task::AtomicWaker;

use crate::engine::stream::event::Event;
use crate::engine::stream::weight::Scale;
use crate::state::Values;
use crate::sync::lock;

/// How many bytes of events wait for a slow consumer at most, the newest not counted.
const BYTES: usize = 64 << 20;

/// Events on their way: at most `capacity` wait, and at most [`BYTES`]; when there are more, the oldest are dropped and
/// counted.
pub(crate) struct Ring<S: Values> {
    queue: Mutex<EventQueue<S>>,
    scale: Mutex<Scale>,
    waker: AtomicWaker,
    capacity: usize,
    /// The callback that takes each event at once, instead of the queue.
    tap: Option<Box<Tap<S>>>,
}

/// Takes events as they come. It must not wait.
pub(crate) type Tap<S> = dyn Fn(Event<S>) + Send + Sync;

struct EventQueue<S: Values> {
    /// Each with its bytes.
    events: VecDeque<(Event<S>, usize)>,
    bytes: usize,
    missed: usize,
    closed: bool,
}

impl<S: Values> Ring<S> {
    pub(crate) fn new(capacity: usize) -> Self {
        let queue = EventQueue { events: VecDeque::new(), bytes: 0, missed: 0, closed: false };
        Self { queue: Mutex::new(queue), scale: Mutex::default(), waker: AtomicWaker::new(), capacity, tap: None }
    }

    /// A queue in which nothing waits: each event is given on at once.
    pub(crate) fn tapped(tap: Box<Tap<S>>) -> Self {
        Self { tap: Some(tap), ..Self::new(1) }
    }

    pub(in crate::engine) fn push(&self, event: Event<S>) {
        if let Some(tap) = &self.tap {
            return tap(event);
        }
        let bytes = lock(&self.scale).weigh(&event);
        let mut queue = lock(&self.queue);
        let mut dropped = Vec::new();
        while queue.events.len() == self.capacity || (queue.bytes + bytes > BYTES && !queue.events.is_empty()) {
            dropped.extend(queue.pop());
            queue.missed += 1;
        }
        queue.events.push_back((event, bytes));
        queue.bytes += bytes;
        drop(queue);
        self.waker.wake();
    }

    /// Closes the queue: no more events come.
    pub(in crate::engine) fn close(&self) {
        lock(&self.queue).closed = true;
        self.waker.wake();
    }

    /// Whether a consumer that keeps up would want the run to yield now.
    pub(in crate::engine) fn is_crowded(&self) -> bool {
        let queue = lock(&self.queue);
        queue.events.len() * 2 > self.capacity || queue.bytes * 2 > BYTES
    }

    /// The next event; none if the run has ended and all were taken.
    pub(in crate::engine) fn poll_pop(&self, context: &mut Context<'_>) -> Poll<Option<Event<S>>> {
        self.waker.register(context.waker());
        let mut queue = lock(&self.queue);
        if queue.missed > 0 {
            return Poll::Ready(Some(Event::Lagged(std::mem::take(&mut queue.missed))));
        }
        match queue.pop() {
            Some(event) => Poll::Ready(Some(event)),
            None if queue.closed => Poll::Ready(None),
            None => Poll::Pending,
        }
    }
}

impl<S: Values> EventQueue<S> {
    fn pop(&mut self) -> Option<Event<S>> {
        let (event, bytes) = self.events.pop_front()?;
        self.bytes -= bytes;
        Some(event)
    }
}
