use std::collections::VecDeque;
use std::sync::Mutex;
use std::task::{Context, Poll};

use futures_util::task::AtomicWaker;

use crate::engine::stream::event::Event;
use crate::engine::stream::weight::Scale;
use crate::state::Values;
use crate::sync::lock;

/// Maximum number of bytes of waiting events. A single larger event is accepted if no other event waits.
const BYTES: usize = 64 << 20;

/// The queue of waiting events: at most `capacity` events, and at most [`BYTES`]. A full queue drops and counts the
/// oldest events, so that a slow consumer never blocks the run.
pub(crate) struct Ring<S: Values> {
    queue: Mutex<EventQueue<S>>,
    scale: Mutex<Scale>,
    waker: AtomicWaker,
    capacity: usize,
    /// Receives each event at once. None if events wait in the queue.
    tap: Option<Box<Tap<S>>>,
}

/// Receives each event at once. The callback must not block.
pub(crate) type Tap<S> = dyn Fn(Event<S>) + Send + Sync;

struct EventQueue<S: Values> {
    /// The events, each with its size in bytes.
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

    /// Creates a ring that passes each event to `tap` at once.
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

    pub(in crate::engine) fn close(&self) {
        lock(&self.queue).closed = true;
        self.waker.wake();
    }

    /// Returns true if more than half of the queue is used, so that the run should yield to the consumer.
    pub(in crate::engine) fn is_crowded(&self) -> bool {
        let queue = lock(&self.queue);
        queue.events.len() * 2 > self.capacity || queue.bytes * 2 > BYTES
    }

    /// Returns the next event. Returns `None` if the run has ended and no event is left.
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
