//! Cleanups of work outside of the process: who runs them, and when.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use hier_core::checkpoint::MemorySaver;
use hier_core::graph::{CompiledGraph, Retry};
use hier_core::prelude::*;
use hier_core::{CancellationToken, NodeErrorKind, Result};
use tokio::sync::Notify;

use crate::kit::{Case, CaseUpdate, SECOND};

#[derive(Default)]
struct Jobs {
    begun: Notify,
    cancelled: AtomicUsize,
}

type Desk = Arc<Jobs>;

async fn waits(run: &Run<Desk>) -> Result<CaseUpdate> {
    let jobs = run.context().clone();
    jobs.begun.notify_one();
    let cancel = async move {
        tokio::time::sleep(SECOND).await;
        jobs.cancelled.fetch_add(1, Ordering::SeqCst);
    };
    run.with_cleanup(std::future::pending::<()>(), cancel).await;
    Ok(Case::update())
}

async fn ends(run: &Run<Desk>) -> Result<CaseUpdate> {
    let jobs = run.context().clone();
    let cancel = async move {
        jobs.cancelled.fetch_add(1, Ordering::SeqCst);
    };
    run.with_cleanup(tokio::time::sleep(SECOND), cancel).await;
    Ok(Case::update())
}

fn twice() -> Retry {
    Retry { interval: SECOND, jitter: 0.0, ..Retry::attempts(2) }
}

graph! { Waits<Case, Desk> = Graph { nodes: [waits], edges: [START >> waits >> END] } }
graph! { Ends<Case, Desk> = Graph { nodes: [ends], edges: [START >> ends >> END] } }
graph! { Limited<Case, Desk> = Graph { nodes: [waits { timeout: 5s }], edges: [START >> waits >> END] } }
graph! { Idle<Case, Desk> = Graph { nodes: [waits { idle_timeout: 5s }], edges: [START >> waits >> END] } }
graph! { Repeated<Case, Desk> = Graph { nodes: [waits { timeout: 5s, retry: twice() }], edges: [START >> waits >> END] } }
graph! { Inside<Case, Desk> = Graph { nodes: [Waits { timeout: 5s }], edges: [START >> Waits >> END] } }
graph! {
    InRepeated<Case, Desk> = Graph { nodes: [Waits { idle_timeout: 5s, retry: twice() }], edges: [START >> Waits >> END] }
}

/// Returns the graph without a checkpointer, and with one.
fn both(compile: fn() -> CompiledGraph<Case, Desk>) -> [CompiledGraph<Case, Desk>; 2] {
    [compile(), compile().checkpointer(MemorySaver::new())]
}

#[tokio::test(start_paused = true)]
async fn cancelled_run_returns_after_its_cleanups() {
    for compile in [Waits::compile, Inside::compile, Repeated::compile] {
        for graph in both(compile) {
            let (desk, token) = (Desk::default(), CancellationToken::new());
            let run = graph.invoke(Case::update()).thread("t").context(desk.clone()).cancel(token.clone());
            let run = tokio::spawn(async move { run.await.map(|_| ()) });
            desk.begun.notified().await;
            token.cancel();
            assert!(matches!(run.await.unwrap(), Err(RunError::Cancelled { .. })));
            assert_eq!(desk.cancelled.load(Ordering::SeqCst), 1);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn dropped_run_is_given_up_unless_it_is_durable() {
    for (given_up, graph) in [1, 0].into_iter().zip(both(Inside::compile)) {
        let desk = Desk::default();
        let run = graph.invoke(Case::update()).thread("t").context(desk.clone());
        let run = tokio::spawn(async move { run.await.map(|_| ()) });
        desk.begun.notified().await;
        run.abort();
        assert!(run.await.unwrap_err().is_cancelled());
        tokio::time::sleep(2 * SECOND).await;
        assert_eq!(desk.cancelled.load(Ordering::SeqCst), given_up);
    }
}

#[tokio::test(start_paused = true)]
async fn timeout_of_the_last_attempt_gives_a_task_up() {
    for compile in [Limited::compile, Idle::compile, Inside::compile, Repeated::compile, InRepeated::compile] {
        for graph in both(compile) {
            let desk = Desk::default();
            let failed = graph.invoke(Case::update()).thread("t").context(desk.clone()).await.unwrap_err();
            assert!(
                matches!(failed.root(), RunError::Node { error, .. } if matches!(error.kind(), NodeErrorKind::Timeout { .. })),
                "{failed}"
            );
            assert_eq!(desk.cancelled.load(Ordering::SeqCst), 1);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn work_that_has_ended_needs_no_cleanup() {
    for graph in both(Ends::compile) {
        let desk = Desk::default();
        let out = graph.invoke(Case::update()).thread("t").context(desk.clone()).await.unwrap();
        assert!(out.is_finished());
        assert_eq!(desk.cancelled.load(Ordering::SeqCst), 0);
    }
}

/// The task is dropped by a thread that is not one of the runtime.
#[test]
fn dropped_run_is_cleaned_up_outside_of_its_runtime() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    let desk = Desk::default();
    let graph = Waits::compile();
    let mut run = Box::pin(graph.invoke(Case::update()).context(desk.clone()).into_future());
    runtime.block_on(async {
        tokio::select! {
            _ = &mut run => panic!("it waits"),
            () = desk.begun.notified() => {}
        }
    });
    drop(run);
    runtime.block_on(async { tokio::time::sleep(2 * SECOND).await });
    assert_eq!(desk.cancelled.load(Ordering::SeqCst), 1);
}
