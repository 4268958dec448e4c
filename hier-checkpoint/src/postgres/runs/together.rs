//! Changes of the runs of several threads as one statement: what waits while others are being stored is stored together. None waits for
//! another to come, and none is held up by one that has to wait for somebody: that one is told to go alone.

use std::collections::{HashSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot;

use super::super::Postgres;
use super::super::fault::Fault;
use super::super::store::Looks;
use super::change::Answer;
use super::item::{Item, MOST_BYTES};
use super::tables::Tables;

/// How many statements are on their way at once. More than one, so that the server has the next when it has done the last.
const LANES: usize = 2;
/// How many changes share a statement.
const MOST: usize = 64;

/// What came of a change that was to be stored together with others.
pub(super) enum Shared {
    /// It was answered.
    Answered(Answer),
    /// It was not stored, and has to be sent alone.
    Alone,
    /// Whether it was stored is not known: the statement failed, or whoever sent it has gone.
    Unknown,
}

/// A change that waits.
struct Waits {
    item: Arc<Item>,
    answer: oneshot::Sender<Shared>,
}

/// What waits, and how many lanes are at work.
#[derive(Default)]
struct Lanes {
    waiting: VecDeque<Waits>,
    at_work: usize,
}

/// The changes of this process that are stored together.
#[derive(Default)]
pub(in super::super) struct Together(Mutex<Lanes>);

/// Sends what waits until nothing does. If it is dropped before, since its runtime has ended or something panicked, those who wait are told.
struct Lane {
    postgres: Postgres,
    is_done: bool,
}

impl Together {
    fn lock(&self) -> MutexGuard<'_, Lanes> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets a change wait. Whether a lane has to be begun for it.
    fn add(&self, item: Arc<Item>) -> (bool, oneshot::Receiver<Shared>) {
        let (answer, answered) = oneshot::channel();
        let mut lanes = self.lock();
        lanes.waiting.push_back(Waits { item, answer });
        let begins = lanes.at_work < LANES;
        lanes.at_work += usize::from(begins);
        (begins, answered)
    }

    /// The next changes that go together, by the names of their threads; none if nothing waits, and the lane has ended.
    fn next(&self) -> Vec<Waits> {
        let mut lanes = self.lock();
        let (mut taken, mut later, mut bytes) = (Vec::<Waits>::new(), VecDeque::new(), 0);
        let mut threads = HashSet::new();
        while taken.len() < MOST
            && let Some(waits) = lanes.waiting.pop_front()
        {
            bytes += waits.item.size();
            if bytes > MOST_BYTES && !taken.is_empty() {
                lanes.waiting.push_front(waits);
                break;
            }
            // Whoever asked for it has gone.
            if waits.answer.is_closed() {
                continue;
            }
            if threads.insert(waits.item.name.clone()) {
                taken.push(waits);
            } else {
                later.push_back(waits);
            }
        }
        while let Some(waits) = later.pop_back() {
            lanes.waiting.push_front(waits);
        }
        if taken.is_empty() {
            lanes.at_work -= 1;
        }
        drop(lanes);
        taken.sort_by(|one, other| one.item.name.cmp(&other.item.name));
        taken
    }
}

impl Postgres {
    /// Stores a change together with those that are to be stored at the same time.
    pub(super) async fn put_together(&self, item: &Arc<Item>) -> Shared {
        let (begins, answered) = self.0.together.add(item.clone());
        if begins {
            tokio::spawn(Lane { postgres: self.clone(), is_done: false }.work());
        }
        answered.await.unwrap_or(Shared::Unknown)
    }
}

impl Lane {
    async fn work(mut self) {
        loop {
            let waiting = self.postgres.0.together.next();
            if waiting.is_empty() {
                self.is_done = true;
                return;
            }
            let items: Vec<&Item> = waiting.iter().map(|waits| &*waits.item).collect();
            // One attempt: those who wait make the others, each its own.
            let answers = self.send(&items).await.unwrap_or_default();
            let mut answers = answers.into_iter();
            for waits in waiting {
                let shared = match answers.next() {
                    Some(Answer::Alone | Answer::LacksParent) => Shared::Alone,
                    Some(answer) => Shared::Answered(answer),
                    None => Shared::Unknown,
                };
                // A call that was dropped waits for no answer.
                let _ = waits.answer.send(shared);
            }
        }
    }

    async fn send(&self, items: &[&Item]) -> Result<Vec<Answer>, Fault> {
        let inner = &self.postgres.0;
        let client = inner.session.client().await?;
        let (session, vault, unreadable) = (&inner.session, &inner.vault, &inner.unreadable);
        Tables { session, client: &client, vault, unreadable }.put_all(items, Looks::ForParents, false).await
    }
}

impl Drop for Lane {
    fn drop(&mut self) {
        if self.is_done {
            return;
        }
        let dropped = {
            let mut lanes = self.postgres.0.together.lock();
            lanes.at_work -= 1;
            std::mem::take(&mut lanes.waiting)
        };
        // Without the lock: who is told may want it.
        drop(dropped);
    }
}
