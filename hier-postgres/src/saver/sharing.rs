//! What is asked of the server at the same time, as one statement: of each kind one is on its way, and what comes meanwhile goes together
//! with the next. None waits for another to come. One at a time, since a statement costs more than what each adds to it.

use std::collections::{HashSet, VecDeque};
use std::marker::PhantomData;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::future::join_all;
use tokio::sync::oneshot;
use tokio::time::{Instant, timeout};

use super::Postgres;
use super::fault::Fault;

/// Something that can be sent together with others of its kind.
pub(super) trait Shares: Send + Sync + Sized + 'static {
    type Answer: Send + 'static;

    /// How many share a statement at most.
    const MOST: usize;
    /// How large they are together at most.
    const MOST_SIZE: usize;

    fn size(&self) -> usize;

    /// The key by which those of a statement are sorted. Two with the same key never share one; those without a key always may.
    fn name(&self) -> Option<&str> {
        None
    }

    /// Whether it is small enough. Whoever asks for a larger one sends it alone: it would hold up the others, which go one after the other.
    fn is_small(&self) -> bool {
        self.size() <= Self::MOST_SIZE / 4
    }

    /// Those of this kind.
    fn sharing(postgres: &Postgres) -> &Sharing<Self>;

    /// Sends them with one statement. An answer for each.
    fn send(postgres: &Postgres, items: &[&Self]) -> impl Future<Output = Result<Vec<Self::Answer>, Fault>> + Send;
}

/// Who waits to be sent.
struct Waits<T: Shares> {
    item: Arc<T>,
    answer: oneshot::Sender<T::Answer>,
}

struct Inner<T: Shares> {
    waiting: VecDeque<Waits<T>>,
    /// Since when the statement is on its way that whoever sends has sent last; none if nobody sends.
    at_work: Option<Instant>,
}

/// What waits, and whether somebody sends it.
pub(super) struct Sharing<T: Shares>(Mutex<Inner<T>>);

/// Sends what waits until nothing does. If it is dropped before, since its runtime has ended or something panicked, those who wait are told.
struct Sender<T: Shares> {
    postgres: Postgres,
    is_done: bool,
    kind: PhantomData<fn(T)>,
}

impl<T: Shares> Default for Sharing<T> {
    fn default() -> Self {
        Self(Mutex::new(Inner { waiting: VecDeque::new(), at_work: None }))
    }
}

impl<T: Shares> Sharing<T> {
    fn lock(&self) -> MutexGuard<'_, Inner<T>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets it wait. Whether nobody sends, and the caller has to see to it: also if the last statement should have ended long ago, as when the
    /// runtime of whoever sends is not driven any more.
    fn add(&self, item: Arc<T>, limit: Duration) -> (bool, oneshot::Receiver<T::Answer>) {
        let (answer, answered) = oneshot::channel();
        let mut inner = self.lock();
        inner.waiting.push_back(Waits { item, answer });
        let begins = inner.at_work.is_none_or(|since| since.elapsed() > limit);
        if begins {
            inner.at_work = Some(Instant::now());
        }
        (begins, answered)
    }

    /// The next that go together, by their names; none if nothing waits, and whoever sends has ended.
    fn next(&self) -> Vec<Waits<T>> {
        let mut inner = self.lock();
        let (mut taken, mut later, mut size) = (Vec::<Waits<T>>::new(), VecDeque::new(), 0);
        let mut names = HashSet::new();
        while taken.len() < T::MOST
            && let Some(waits) = inner.waiting.pop_front()
        {
            // Whoever asked for it has gone.
            if waits.answer.is_closed() {
                continue;
            }
            if waits.item.name().is_some_and(|name| !names.insert(name.to_owned())) {
                later.push_back(waits);
                continue;
            }
            size += waits.item.size();
            if size > T::MOST_SIZE && !taken.is_empty() {
                inner.waiting.push_front(waits);
                break;
            }
            taken.push(waits);
        }
        while let Some(waits) = later.pop_back() {
            inner.waiting.push_front(waits);
        }
        inner.at_work = (!taken.is_empty()).then(Instant::now);
        drop(inner);
        taken.sort_by(|one, other| one.item.name().cmp(&other.item.name()));
        taken
    }
}

impl Postgres {
    /// Sends something together with what is to be sent at the same time. None if what came of it is not known: the statement failed, there was
    /// no answer in the time that a statement may take, or whoever sent it has gone. There is one attempt: those who wait make the others, each
    /// its own, and are told then what is wrong.
    pub(super) async fn share<T: Shares>(&self, item: &Arc<T>) -> Option<T::Answer> {
        let limit = self.0.session.limit();
        let (begins, answered) = T::sharing(self).add(item.clone(), limit);
        if begins {
            // On the runtime of the caller: the one that this was made in may have ended.
            tokio::spawn(Sender::<T> { postgres: self.clone(), is_done: false, kind: PhantomData }.work());
        }
        timeout(limit, answered).await.ok()?.ok()
    }
}

impl<T: Shares> Sender<T> {
    async fn work(mut self) {
        // Lets the tasks that are ready add theirs first.
        tokio::task::yield_now().await;
        loop {
            let mut waiting = T::sharing(&self.postgres).next();
            if waiting.is_empty() {
                self.is_done = true;
                return;
            }
            let items: Vec<Arc<T>> = waiting.iter().map(|waits| waits.item.clone()).collect();
            let items: Vec<&T> = items.iter().map(|item| &**item).collect();
            let sent = tokio::select! {
                sent = T::send(&self.postgres, &items) => sent,
                // Nobody waits for it any more: its connection is free for others.
                _ = join_all(waiting.iter_mut().map(|waits| waits.answer.closed())) => continue,
            };
            let answers = sent.unwrap_or_else(|fault| {
                self.postgres.0.session.note(&fault);
                Vec::new()
            });
            for (waits, answer) in waiting.into_iter().zip(answers) {
                // A call that was dropped waits for no answer.
                let _ = waits.answer.send(answer);
            }
        }
    }
}

impl<T: Shares> Drop for Sender<T> {
    fn drop(&mut self) {
        if self.is_done {
            return;
        }
        let dropped = {
            let mut inner = T::sharing(&self.postgres).lock();
            inner.at_work = None;
            std::mem::take(&mut inner.waiting)
        };
        // Without the lock: who is told may want it.
        drop(dropped);
    }
}
