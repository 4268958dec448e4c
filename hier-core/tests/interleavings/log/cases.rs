//! Invariants of a run's records in every interleaving.

use std::collections::BTreeMap;
use std::future::poll_fn;
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Poll;
use std::time::Duration;

use futures_util::future::try_join_all;
use shuttle::future::{block_on, spawn, yield_now};
use shuttle::rand::{Rng as _, thread_rng};
use uuid::Uuid;

use super::committer::Committer;
use super::saver::{Place, Saver};
use crate::checkpoint::{Lease, PendingWrite, SaverError, SideEffects, TaskWrites, WriteRecord};
use crate::config::Durability;

const SCHEDULES: usize = 150;
/// Enough for the commits that are tried in place, and for some that are not.
const STEPS: Place = 5;
const TASKS: usize = 2;

fn record(place: Place) -> WriteRecord {
    let write = PendingWrite { slot: 0, channel: "list".into(), value: vec![0; 100] };
    let writes = TaskWrites { checkpoint: Uuid::nil(), task: Uuid::nil(), path: "".into(), writes: vec![write] };
    WriteRecord::Writes { namespace: place.to_string().into(), writes }
}

/// The records of which it was said that they are stored, or will be.
#[derive(Clone, Default)]
struct Promised(Arc<Mutex<BTreeMap<Place, usize>>>);

impl Promised {
    fn add(&self, place: Place) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner).entry(place).or_default() += 1;
    }

    /// They are stored.
    fn check(&self, saver: &Saver) {
        let (promised, stored) = (self.0.lock().unwrap_or_else(PoisonError::into_inner), saver.stored());
        let lost = promised.iter().find(|(place, count)| stored.get(place).is_none_or(|found| found < count));
        assert!(lost.is_none(), "{lost:?} was promised, of {stored:?}");
    }
}

#[derive(Clone)]
struct Run {
    committer: Arc<Committer>,
    saver: Saver,
    promised: Promised,
}

impl Run {
    fn new(durability: Durability, saver: Saver) -> Self {
        let lease = Lease::new("thread", 1, Duration::from_mins(1));
        let committer = Arc::new(Committer::new(saver.clone(), lease, durability, "graph"));
        Self { committer, saver, promised: Promised::default() }
    }

    async fn commit(&self, place: Place) -> Result<(), SaverError> {
        self.committer.commit(vec![record(place)]).await?;
        self.promised.add(place);
        Ok(())
    }

    /// Runs the tasks of a step concurrently, optionally on separate threads.
    async fn step(&self, place: Place, spawned: bool) -> Result<(), SaverError> {
        if !spawned {
            try_join_all((0..TASKS).map(|_| self.commit(place))).await?;
            return Ok(());
        }
        let task = |_| {
            let this = self.clone();
            spawn(async move { this.commit(place).await })
        };
        let tasks: Vec<_> = (0..TASKS).map(task).collect();
        let mut ended = Ok(());
        for task in tasks {
            ended = ended.and(task.await.expect("it does not panic"));
        }
        ended
    }

    /// All steps, each with a checkpoint at its end.
    async fn run(&self, spawned: bool) -> Result<(), SaverError> {
        for place in (0..STEPS).map(|step| 2 * step) {
            self.step(place, spawned).await?;
            match thread_rng().gen_range(0..6) {
                0 => {
                    self.committer.commit_now(vec![record(place + 1)]).await?;
                    self.promised.add(place + 1);
                    self.promised.check(&self.saver);
                }
                1 => {
                    self.committer.commit_also(vec![record(place + 1)], SideEffects::default()).await?;
                    self.promised.add(place + 1);
                    self.promised.check(&self.saver);
                }
                _ => self.commit(place + 1).await?,
            }
            if thread_rng().gen_ratio(1, 6) {
                self.committer.flush().await?;
                self.promised.check(&self.saver);
            }
        }
        if thread_rng().gen_ratio(1, 2) {
            self.committer.commit_last(vec![record(2 * STEPS)]).await?;
            self.promised.add(2 * STEPS);
            self.promised.check(&self.saver);
        }
        Ok(())
    }
}

/// Polls something so often, and drops it then.
async fn polled<T>(polls: usize, work: impl Future<Output = T>) -> Option<T> {
    let (mut left, mut work) = (polls, pin!(work));
    poll_fn(|context| {
        if left == 0 {
            return Poll::Ready(None);
        }
        left -= 1;
        let polled = work.as_mut().poll(context).map(Some);
        if left == 0 && polled.is_pending() { Poll::Ready(None) } else { polled }
    })
    .await
}

fn any_polls(most: usize) -> usize {
    if thread_rng().gen_ratio(1, 3) { usize::MAX } else { thread_rng().gen_range(0..most) }
}

async fn case(durability: Durability, fails: bool, spawned: bool) {
    let saver = Saver::failing(fails.then(|| thread_rng().gen_range(0..12)));
    let run = Run::new(durability, saver.clone());
    // Tasks on separate threads end before the run does.
    let polls = if spawned { usize::MAX } else { any_polls(40) };
    match polled(polls, run.run(spawned)).await {
        Some(Err(error)) => assert!(saver.has_failed(), "{error}"),
        Some(Ok(())) if thread_rng().gen_ratio(1, 2) => match run.committer.flush().await {
            Ok(()) => run.promised.check(&saver),
            Err(error) => assert!(saver.has_failed(), "{error}"),
        },
        _ => {}
    }
    if durability == Durability::Sync && saver.releases() == 0 && !saver.has_failed() {
        run.committer.store_at_release(Some(record(2 * STEPS + 1)));
        run.promised.add(2 * STEPS + 1);
    }
    if thread_rng().gen_ratio(3, 4) {
        polled(any_polls(6), run.committer.release()).await;
    }
    let Run { committer, promised, .. } = run;
    drop(committer);
    saver.released().await;
    // In every interleaving it is released once, and nothing is stored later.
    for _ in 0..5 {
        yield_now().await;
    }
    assert_eq!(saver.releases(), 1);
    if !saver.has_failed() {
        promised.check(&saver);
    }
}

fn explore(durability: Durability, fails: bool, spawned: bool) {
    let run = move || {
        // A scheduler refuses what has one thread only.
        let other = shuttle::thread::spawn(shuttle::thread::yield_now);
        block_on(case(durability, fails, spawned));
        other.join().expect("it ends");
    };
    shuttle::check_random(run, SCHEDULES);
    shuttle::check_pct(run, SCHEDULES, 3);
}

#[test]
fn acknowledged_commits_precede_the_release() {
    explore(Durability::Async, false, false);
    explore(Durability::Async, false, true);
}

#[test]
fn nothing_is_stored_after_a_failed_commit() {
    explore(Durability::Async, true, false);
    explore(Durability::Async, true, true);
}

#[test]
fn sync_commits_keep_the_same_invariants() {
    explore(Durability::Sync, false, false);
    explore(Durability::Sync, true, true);
}
