//! Sends requests that callers make at the same time as one statement.
//!
//! Requests wait in lanes. A lane sends one statement at a time, and the requests that arrive meanwhile share the next
//! statement. This is faster because a statement costs more than each additional request in it. No request waits for
//! later requests.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::future::join_all;
use tokio::sync::oneshot;
use tokio::time::{Instant, timeout};

use super::Postgres;
use super::fault::PostgresFault;

/// A request that can share a statement with others of its kind.
pub(super) trait Batchable: Send + Sync + Sized + 'static {
    type Answer: Send + 'static;

    /// The maximum number of requests in a statement.
    const MAX_ITEMS: usize;
    /// The maximum total size of the requests in a statement. A larger request has its own statement.
    const MAX_SIZE: usize;
    /// True if a caller without an answer sends the request by itself. The batcher tries such a request once, with a
    /// time limit, and drops it with its caller. It also sends other requests if their callers are dropped.
    const IS_BEST_EFFORT: bool = true;

    /// Requests of different lanes do not share a statement and do not wait for each other.
    fn lane(&self) -> Option<&Arc<str>> {
        None
    }

    fn size(&self) -> usize;

    /// Requests with the same key do not share a statement. A statement sorts its requests by their keys.
    fn key(&self) -> Option<&str> {
        None
    }

    /// Returns true if this request can share a statement with the previous request of its lane.
    fn can_follow(&self, _previous: &Self) -> bool {
        true
    }

    /// Returns false if the request would delay other requests of its lane. The caller then sends the request by
    /// itself.
    fn is_small(&self) -> bool {
        self.size() <= Self::MAX_SIZE / 4
    }

    fn batcher(postgres: &Postgres) -> &Arc<Batcher<Self>>;

    /// Sends the requests as one statement. Returns an answer for each request, or no answers if the statement failed.
    fn send_batch(postgres: &Postgres, batch: Vec<Self>) -> impl Future<Output = Vec<Self::Answer>> + Send;
}

pub(super) struct Pending<T: Batchable> {
    request: T,
    answer: oneshot::Sender<T::Answer>,
}

struct Lane<T: Batchable> {
    pending: VecDeque<Pending<T>>,
    /// The time of the lane's last statement.
    sent: Instant,
}

type Lanes<T> = HashMap<Option<Arc<str>>, Lane<T>>;

/// The requests of one kind. A lane exists while a [`BatchSender`] sends its requests.
pub(super) struct Batcher<T: Batchable>(Mutex<Lanes<T>>);

/// Sends the requests of a lane until the lane is empty. If the sender is dropped before, because its runtime has ended
/// or because of a panic, the callers get no answer.
pub(super) struct BatchSender<T: Batchable> {
    batcher: Arc<Batcher<T>>,
    lane: Option<Arc<str>>,
    is_done: bool,
}

impl<T: Batchable> Default for Batcher<T> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<T: Batchable> Batcher<T> {
    fn lanes(&self) -> MutexGuard<'_, Lanes<T>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Enqueues a request. Also returns a sender, which the caller must start, if the lane has none. If the last
    /// statement of the lane has taken longer than `limit`, the runtime of its sender may have stopped, and the caller
    /// gets a new sender.
    pub(super) fn add(
        self: &Arc<Self>,
        request: T,
        limit: Option<Duration>,
    ) -> (Option<BatchSender<T>>, oneshot::Receiver<T::Answer>) {
        let (answer, answered) = oneshot::channel();
        let key = request.lane().cloned();
        let mut lanes = self.lanes();
        let is_sending = lanes.get(&key).is_some_and(|lane| limit.is_none_or(|limit| lane.sent.elapsed() <= limit));
        let lane = lanes.entry(key.clone()).or_insert_with(|| Lane { pending: VecDeque::new(), sent: Instant::now() });
        lane.pending.push_back(Pending { request, answer });
        if is_sending {
            return (None, answered);
        }
        lane.sent = Instant::now();
        drop(lanes);
        (Some(BatchSender { batcher: self.clone(), lane: key, is_done: false }), answered)
    }
}

impl<T: Batchable> BatchSender<T> {
    /// Removes the requests of the next statement from the lane. Removes the lane if it has no requests.
    pub(super) fn next_batch(&mut self) -> Vec<Pending<T>> {
        let mut lanes = self.batcher.lanes();
        let batch = lanes.get_mut(&self.lane).map(Lane::take_batch).unwrap_or_default();
        if batch.is_empty() {
            lanes.remove(&self.lane);
            self.is_done = true;
        }
        batch
    }

    async fn send_all(mut self, postgres: Postgres) {
        if T::IS_BEST_EFFORT {
            // First lets other tasks that are ready add their requests.
            tokio::task::yield_now().await;
        }
        loop {
            let batch = self.next_batch();
            if batch.is_empty() {
                return;
            }
            let (requests, mut waiting): (Vec<T>, Vec<_>) =
                batch.into_iter().map(|pending| (pending.request, pending.answer)).unzip();
            let sending = T::send_batch(&postgres, requests);
            let answers = if T::IS_BEST_EFFORT {
                tokio::select! {
                    answers = sending => answers,
                    // All callers were dropped. This frees the connection.
                    _ = join_all(waiting.iter_mut().map(oneshot::Sender::closed)) => continue,
                }
            } else {
                sending.await
            };
            for (waiting, answer) in waiting.into_iter().zip(answers) {
                // A caller that was dropped needs no answer.
                let _ = waiting.send(answer);
            }
        }
    }
}

impl<T: Batchable> Drop for BatchSender<T> {
    fn drop(&mut self) {
        if !self.is_done {
            let dropped = self.batcher.lanes().remove(&self.lane);
            // The requests are dropped without the lock, because a caller that wakes may lock it.
            drop(dropped);
        }
    }
}

impl<T: Batchable> Lane<T> {
    fn take_batch(&mut self) -> Vec<Pending<T>> {
        let (mut batch, mut later) = (Vec::<Pending<T>>::new(), VecDeque::new());
        let (mut size, mut keys) = (0, HashSet::new());
        while batch.len() < T::MAX_ITEMS
            && let Some(next) = self.pending.pop_front()
        {
            if T::IS_BEST_EFFORT && next.answer.is_closed() {
                continue;
            }
            if next.request.key().is_some_and(|key| !keys.insert(key.to_owned())) {
                later.push_back(next);
                continue;
            }
            size += next.request.size();
            let is_full = |last: &Pending<T>| size > T::MAX_SIZE || !next.request.can_follow(&last.request);
            if batch.last().is_some_and(is_full) {
                self.pending.push_front(next);
                break;
            }
            batch.push(next);
        }
        while let Some(next) = later.pop_back() {
            self.pending.push_front(next);
        }
        self.sent = Instant::now();
        batch.sort_by(|one, other| one.request.key().cmp(&other.request.key()));
        batch
    }
}

impl Postgres {
    /// Returns the answers of a statement. Returns no answers if the statement failed.
    pub(super) fn answers_of<A>(&self, sent: Result<Vec<A>, PostgresFault>) -> Vec<A> {
        sent.unwrap_or_else(|fault| {
            self.0.session.note(&fault);
            Vec::new()
        })
    }

    /// Enqueues a request. The receiver gets no answer if the statement failed or its sender was dropped.
    pub(super) fn enqueue<T: Batchable>(&self, request: T) -> oneshot::Receiver<T::Answer> {
        let limit = T::IS_BEST_EFFORT.then(|| self.0.session.statement_timeout());
        let (sender, answered) = T::batcher(self).add(request, limit);
        if let Some(sender) = sender {
            // The sender runs on the runtime of the caller, because the runtime that opened the connection may have
            // ended.
            tokio::spawn(sender.send_all(self.clone()));
        }
        answered
    }

    /// Sends a request in one statement with other requests of the same time. Returns `None` if the result is unknown
    /// because the statement failed or timed out, or because its sender was dropped. The batcher makes one attempt. The
    /// caller makes further attempts by itself.
    pub(super) async fn send_shared<T: Batchable>(&self, request: T) -> Option<T::Answer> {
        timeout(self.0.session.statement_timeout(), self.enqueue(request)).await.ok()?.ok()
    }
}
