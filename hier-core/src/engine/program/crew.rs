//! The tasks of a run that the runtime drives by themselves, wherever in the tree of graphs they are.
//!
//! To abort a task is to ask the runtime to drop it, which happens a moment later. A run waits for that moment before it
//! ends, so that no task outlives it.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};

use futures_util::task::AtomicWaker;

use futures_core::future::BoxFuture;

/// How many tasks of a run are still there.
#[derive(Default)]
pub(crate) struct Crew {
    members: AtomicUsize,
    waker: AtomicWaker,
}

/// One task of a run.
pub(crate) struct Member(Arc<Crew>);

impl Crew {
    /// One task more, until the member is dropped.
    pub(crate) fn join(self: &Arc<Self>) -> Member {
        self.members.fetch_add(1, Ordering::Relaxed);
        Member(self.clone())
    }

    /// Waits until no task is left.
    pub(crate) async fn gone(&self) {
        poll_fn(|context| {
            self.waker.register(context.waker());
            if self.members.load(Ordering::Acquire) == 0 { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        if self.0.members.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.0.waker.wake();
        }
    }
}

/// A task that counts until it is gone with all that it holds: the fields are dropped in this order.
pub(crate) struct Counted<T> {
    task: BoxFuture<'static, T>,
    _member: Member,
}

impl<T> Counted<T> {
    pub(crate) fn new(task: BoxFuture<'static, T>, member: Member) -> Self {
        Self { task, _member: member }
    }
}

impl<T> Future for Counted<T> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<T> {
        self.task.as_mut().poll(context)
    }
}
