//! Cancelled runs whose tasks and values panic when they are dropped.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use hier_core::checkpoint::MemorySaver;
use hier_core::graph::CompiledGraph;
use hier_core::prelude::*;
use hier_core::{CancellationToken, Result, StateUpdate};
use tokio::sync::Semaphore;

use crate::kit::SECOND;

/// Panics when it is dropped, if it is armed.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct Fragile {
    #[serde(skip)]
    armed: bool,
}

impl Drop for Fragile {
    fn drop(&mut self) {
        assert!(!self.armed || std::thread::panicking(), "boom in drop");
    }
}

#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
struct Case {
    first: Fragile,
    second: Fragile,
}

/// The jobs of the nodes that wait.
struct Jobs {
    begun: Semaphore,
    cancelled: AtomicUsize,
}

type Desk = Arc<Jobs>;

async fn waits(run: &Run<Desk>) -> Result<CaseUpdate> {
    let jobs = run.context().clone();
    jobs.begun.add_permits(1);
    let cancel = async move {
        tokio::time::sleep(SECOND).await;
        jobs.cancelled.fetch_add(1, Ordering::SeqCst);
    };
    run.with_cleanup(std::future::pending::<()>(), cancel).await;
    Ok(Case::update())
}

async fn falls(run: &Run<Desk>) -> Result<CaseUpdate> {
    let _fragile = Fragile { armed: true };
    waits(run).await
}

async fn first() -> CaseUpdate {
    Case::update().first(Fragile { armed: true })
}

async fn second() -> CaseUpdate {
    Case::update().second(Fragile { armed: true })
}

graph! { Alone<Case, Desk> = Graph { nodes: [falls], edges: [START >> falls >> END] } }
graph! {
    Together<Case, Desk> = Graph {
        nodes: [a = falls, b = falls, waits],
        edges: [START >> [a, b, waits] >> END],
    }
}
graph! { Inside<Case, Desk> = Graph { nodes: [Together, falls], edges: [START >> [Together, falls] >> END] } }
graph! {
    Done<Case, Desk> = Graph { nodes: [first, second, waits], edges: [START >> [first, second, waits] >> END] }
}

/// Cancels a run with this number of jobs once all have begun. Fails the test unless all of them were cancelled when
/// the run returns, and the thread is free.
async fn cancelled(graph: CompiledGraph<Case, Desk>, jobs: u32) {
    let graph = graph.checkpointer(MemorySaver::new());
    let (desk, token) =
        (Desk::new(Jobs { begun: Semaphore::new(0), cancelled: AtomicUsize::new(0) }), CancellationToken::new());
    let run = graph.invoke(Case::update()).thread("t").context(desk.clone()).cancel(token.clone());
    let run = tokio::spawn({
        let desk = desk.clone();
        async move { (run.await.map(|_| ()), desk.cancelled.load(Ordering::SeqCst)) }
    });
    drop(desk.begun.acquire_many(jobs).await.expect("the jobs begin"));
    // The paused clock advances once all other tasks wait.
    tokio::time::sleep(SECOND).await;
    token.cancel();
    let ended = tokio::time::timeout(60 * SECOND, run).await.expect("the run ends");
    let (ended, cancelled) = ended.expect("the run does not panic");
    assert!(matches!(ended, Err(RunError::Cancelled { .. })), "{ended:?}");
    assert_eq!(cancelled, jobs as usize);
    graph
        .update_state(Config::new().thread("t"), StateUpdate::update(Case::update()))
        .await
        .expect("the thread is free");
}

#[tokio::test(start_paused = true)]
async fn cancelled_run_returns_after_its_last_task_if_tasks_panic() {
    cancelled(Alone::compile(), 1).await;
    cancelled(Together::compile(), 3).await;
    cancelled(Inside::compile(), 4).await;
}

#[tokio::test(start_paused = true)]
async fn cancelled_run_returns_after_its_last_task_if_results_panic() {
    cancelled(Done::compile(), 1).await;
}
