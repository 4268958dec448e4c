//! Invariants of a batch in every interleaving.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures_util::future::{BoxFuture, Either, select};
use shuttle::future::{block_on, yield_now};
use tokio_util::task::TaskTracker;

use crate::pool::batch::{BatchWork, TaskBatch};

const TASKS: usize = 4;
const SCHEDULES: usize = 200;

/// The numbers of living tasks, of polled or waiting ones, and their maximum.
#[derive(Default)]
struct Gauge {
    alive: AtomicUsize,
    most: AtomicUsize,
    ended: AtomicUsize,
}

struct Alive(Arc<Gauge>);

impl Alive {
    fn new(gauge: &Arc<Gauge>) -> Self {
        let alive = gauge.alive.fetch_add(1, Ordering::SeqCst) + 1;
        gauge.most.fetch_max(alive, Ordering::SeqCst);
        Self(gauge.clone())
    }
}

impl Drop for Alive {
    fn drop(&mut self) {
        self.0.alive.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Tasks of which each waits as often as its number says, modulo three. Each leaves the next its own number.
struct Numbers(Arc<Gauge>);

impl BatchWork for Numbers {
    type Task = BoxFuture<'static, (Option<usize>, usize)>;
    type Spare = usize;
    type Result = usize;

    fn start(&self, number: usize, spare: Option<usize>) -> Self::Task {
        let gauge = self.0.clone();
        Box::pin(async move {
            let alive = Alive::new(&gauge);
            for _ in 0..number % 3 {
                yield_now().await;
            }
            gauge.ended.fetch_add(1, Ordering::SeqCst);
            assert!(spare.is_none_or(|before| before < number), "a thread takes tasks in order");
            drop(alive);
            (Some(number), number)
        })
    }
}

async fn batch(gauge: &Arc<Gauge>, limit: usize, tracker: &TaskTracker) -> Vec<usize> {
    let results = TaskBatch::run(TASKS, Numbers(gauge.clone()), limit, tracker).await;
    let results = results.unwrap_or_else(|_| panic!("there is a runtime"));
    assert!(results.iter().all(|(place, number)| place == number));
    results.into_iter().map(|(_, number)| number).collect()
}

#[test]
fn every_task_ends_once_within_the_limit() {
    for limit in [1, 2, usize::MAX] {
        let run = move || {
            let (gauge, tracker) = (Arc::<Gauge>::default(), TaskTracker::new());
            let results = block_on(batch(&gauge, limit, &tracker));
            assert_eq!(results, (0..TASKS).collect::<Vec<_>>());
            assert_eq!(gauge.ended.load(Ordering::SeqCst), TASKS);
            assert!(gauge.most.load(Ordering::SeqCst) <= limit, "limit {limit}");
        };
        shuttle::check_random(run, SCHEDULES);
        shuttle::check_pct(run, SCHEDULES, 3);
    }
}

#[test]
fn dropped_batch_leaves_nothing() {
    for (limit, polls) in [(1, 0), (1, 2), (2, 1), (usize::MAX, 1), (usize::MAX, 3)] {
        let run = move || {
            let (gauge, tracker) = (Arc::<Gauge>::default(), TaskTracker::new());
            block_on(async {
                let gives_up = async {
                    for _ in 0..polls {
                        yield_now().await;
                    }
                };
                let ended = {
                    let batch = std::pin::pin!(batch(&gauge, limit, &tracker));
                    matches!(select(batch, std::pin::pin!(gives_up)).await, Either::Left(_))
                };
                tracker.close();
                tracker.wait().await;
                assert_eq!(gauge.alive.load(Ordering::SeqCst), 0, "a task outlives its batch");
                let done = gauge.ended.load(Ordering::SeqCst);
                assert!(!ended || done == TASKS);
                // Whatever happens next, no task continues.
                for _ in 0..5 {
                    yield_now().await;
                }
                assert_eq!(gauge.ended.load(Ordering::SeqCst), done, "a task ended after its run");
            });
        };
        shuttle::check_random(run, SCHEDULES);
        shuttle::check_pct(run, SCHEDULES, 3);
    }
}
