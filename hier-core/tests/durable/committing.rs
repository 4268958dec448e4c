//! Writes of a run to its saver: bounded in bytes, with a renewed lease, and with an error if the saver or the
//! runtime is gone.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Waker};
use std::time::Duration;

use hier_core::checkpoint::{Checkpointer, Claim, SaverError, SupersededBy, WhenRunning};
use hier_core::graph::{EdgeEnd, NodeDef};
use hier_core::prelude::*;
use hier_core::state::DynState;
use hier_core::{CancellationToken, Durability};
use hier_testkit::Layered;
use serde_json::json;
use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout};

use super::hooked::{Call, Hooked};
use super::kit::*;

const MINUTE: Duration = Duration::from_mins(1);
const MEGABYTE: usize = 1 << 20;

/// A loop that writes a megabyte in each of this many steps.
fn heavy(steps: usize) -> Builder {
    let mut graph = builder();
    graph = graph.node(
        "write",
        does(|task| {
            let run = task.run().context().of("write");
            Ok(json!({ "x": format!("{run}{}", " ".repeat(MEGABYTE)) }))
        }),
    );
    let again = move |state: &DynState| {
        let last = state.get("x").and_then(|x| x.as_str()?.trim().parse().ok());
        if last == Some(steps) { "done" } else { "more" }
    };
    graph = graph.edge(START, "write").route(
        "write",
        "again",
        [("more", vec![EdgeEnd::from("write")]), ("done", vec![END.into()])],
        again,
    );
    graph
}

#[tokio::test]
async fn pending_commits_are_bounded_in_bytes() {
    let (gate, commits) = (Arc::new(Semaphore::new(0)), Arc::new(Mutex::new(Vec::new())));
    let hook = {
        let (gate, commits) = (gate.clone(), commits.clone());
        move |call| {
            let (gate, commits) = (gate.clone(), commits.clone());
            async move {
                if let Call::Commit(bytes) = call {
                    commits.lock().unwrap().push(bytes);
                    let _open = gate.acquire().await;
                }
                Ok(())
            }
        }
    };
    let mut bench = Bench::on(heavy(50), Hooked::new(hook));
    bench.config = bench.config.durability(Durability::Async);
    let tally = bench.tally.clone();
    let observer = async {
        // The saver stores nothing meanwhile: whatever is going to happen has happened.
        for _ in 0..1000 {
            tokio::task::yield_now().await;
        }
        let steps = tally.of("write");
        gate.add_permits(Semaphore::MAX_PERMITS);
        steps
    };
    let (ended, steps) = tokio::join!(bench.start(json!({})), observer);
    assert!(ended.unwrap().is_finished());
    assert!((2..40).contains(&steps), "{steps} MB were written while nothing could be stored");
    let commits = commits.lock().unwrap();
    let largest = commits.iter().copied().max().unwrap();
    assert!(largest < 34 * MEGABYTE, "one commit has {largest} bytes");
    assert!(commits.iter().sum::<usize>() > 50 * MEGABYTE, "everything is stored in the end");
}

#[tokio::test(start_paused = true)]
async fn value_above_the_bound_is_stored() {
    let mut graph = builder();
    graph = graph.node("write", does(|_| Ok(json!({ "x": "x".repeat(40 * MEGABYTE) })))).edge(START, "write");
    let mut bench = Bench::on(graph, Hooked::new(|_| std::future::ready(Ok(()))));
    bench.config = bench.config.durability(Durability::Async);
    let ended = timeout(MINUTE, bench.start(json!({}))).await.expect("it ends");
    assert!(ended.unwrap().is_finished());
}

#[tokio::test(start_paused = true)]
async fn panicking_saver_is_an_error() {
    for durability in [Durability::Sync, Durability::Async, Durability::Exit] {
        for (name, parallel) in [("alone", false), ("with a sibling", true)] {
            let commits = AtomicUsize::new(0);
            let hook = move |call| {
                let panics = matches!(call, Call::Commit(_)) && commits.fetch_add(1, Ordering::SeqCst) > 0;
                async move {
                    assert!(!panics, "the disk is on fire");
                    Ok(())
                }
            };
            let mut graph = row(&["a", "b", "c"]);
            if parallel {
                graph = graph.node("d", mark()).edge("a", "d");
            }
            let mut bench = Bench::on(graph, Hooked::new(hook));
            bench.config = bench.config.durability(durability);
            // The input, so that with `Exit` there is a second commit too.
            let _ = timeout(MINUTE, bench.start(json!({ "x": 1 }))).await.expect("it ends");
            let ended = timeout(MINUTE, bench.start(json!({ "x": 1 }))).await.expect("it ends");
            let error = ended.unwrap_err().to_string();
            assert!(error.contains("panicked") && error.contains("on fire"), "{durability:?}, {name}: {error}");
        }
    }
}

/// Two workers: one for the node that keeps its thread, one for the rest.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn blocking_node_keeps_its_lease() {
    let renewals = Arc::new(AtomicUsize::new(0));
    let count = renewals.clone();
    let mut saver = Hooked::new(move |call| {
        count.fetch_add(usize::from(call == Call::Renew), Ordering::SeqCst);
        std::future::ready(Ok(()))
    });
    saver.0.lasts = Duration::from_millis(30);
    let mut graph = builder();
    let busy = does(move |_| {
        let begin = std::time::Instant::now();
        while renewals.load(Ordering::SeqCst) < 2 {
            assert!(begin.elapsed() < Duration::from_mins(1), "the lease was not renewed meanwhile");
            std::thread::yield_now();
        }
        Ok(json!({ "log": ["busy"] }))
    });
    graph = graph.node("busy", busy).edge(START, "busy");
    let bench = Bench::on(graph, saver);
    let ended = tokio::spawn(async move { bench.start(json!({})).await }).await.unwrap();
    assert_eq!(log(ended.unwrap()), json!(["busy"]));
}

#[tokio::test(start_paused = true)]
async fn run_that_lost_its_lease_ends() {
    let saver = Hooked::new(|call| {
        let lost = Err(SaverError::Superseded { thread: "t".to_owned(), by: SupersededBy::Claim });
        std::future::ready(if call == Call::Renew { lost } else { Ok(()) })
    });
    let mut graph = builder();
    let waits = NodeDef::task(|task: NodeTask| async move {
        std::future::pending::<()>().await;
        task.state().update(json!({}))
    });
    graph = graph.node("waits", waits).edge(START, "waits");
    let bench = Bench::on(graph, saver);
    let error = timeout(MINUTE, bench.start(json!({}))).await.expect("it ends").unwrap_err();
    assert!(matches!(error, RunError::Saver { error: SaverError::Superseded { .. }, .. }), "{error}");
}

#[test]
fn runtime_without_timers_is_refused_for_expiring_leases() {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let bench = Bench::on(row(&["a"]), Hooked::new(|_| std::future::ready(Ok(()))));
    let error = runtime.block_on(bench.start(json!({}))).unwrap_err();
    assert!(matches!(&error, RunError::NoTimers { graph } if graph == "case"), "{error}");
    assert!(error.to_string().contains("enable_time"), "{error}");
    assert!(runtime.block_on(bench.saver.acquire("t", reject())).is_ok(), "nothing is held");
}

fn reject() -> Claim {
    Claim { when_running: WhenRunning::Reject, ..Claim::default() }
}

#[tokio::test(start_paused = true)]
async fn run_waiting_for_its_thread_can_be_cancelled() {
    let bench = Bench::new(row(&["a"]));
    let lease = bench.saver.acquire("t", Claim::default()).await.unwrap();
    let token = CancellationToken::new();
    let config = bench.config.clone().when_running(WhenRunning::Wait(MINUTE)).cancel(token.clone());
    let begin = Instant::now();
    let input = bench.update(json!({}));
    let (ended, ()) = tokio::join!(bench.graph.invoke(input).config(config).context(bench.tally.clone()), async {
        tokio::time::sleep(Duration::from_millis(10)).await;
        token.cancel();
    });
    assert!(matches!(ended, Err(RunError::Cancelled { .. })), "{ended:?}");
    assert_eq!(begin.elapsed(), Duration::from_millis(10));
    bench.saver.release(&lease).await.unwrap();
    assert!(bench.saver.acquire("t", reject()).await.is_ok(), "nothing is held");
}

/// Drops a run after each number of polls that it takes: the thread is free again, in whatever it was.
#[tokio::test(start_paused = true)]
async fn dropped_run_holds_nothing_at_any_point() {
    let mut ended = false;
    let mut polls = 0;
    while !ended {
        let hook = |_| async {
            tokio::task::yield_now().await;
            Ok(())
        };
        let mut bench = Bench::on(row(&["a", "b"]), Hooked::new(hook));
        bench.config = bench.config.durability(Durability::Sync);
        let mut run = Box::pin(bench.start(json!({})));
        for _ in 0..polls {
            ended = ended || run.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_ready();
            tokio::task::yield_now().await;
        }
        drop(run);
        for _ in 0..10 {
            tokio::task::yield_now().await;
        }
        let claimed = bench.saver.acquire("t", reject()).await;
        assert!(claimed.is_ok(), "after {polls} polls: {claimed:?}");
        polls += 1;
        assert!(polls <= 200, "a run of two steps takes more polls than that");
    }
    assert!(polls > 5, "a run of two steps takes {polls} polls");
}

/// A runtime that has ended runs nothing any more: what waits for its tasks gets an error.
#[test]
fn ended_runtime_is_an_error() {
    let yields = || {
        NodeDef::task(|task: NodeTask| async move {
            tokio::task::yield_now().await;
            task.state().update(json!({}))
        })
    };
    let (received, ended) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let handle = runtime.handle().clone();
        runtime.shutdown_background();
        let mut graph = builder();
        graph = graph.node("a", yields()).node("b", yields()).edge(START, "a").edge(START, "b");
        let graph = compile(graph);
        let run = graph.invoke(graph.update(json!({})).unwrap()).context(Tally::default());
        received.send(handle.block_on(run.into_future()).map(|_| ())).unwrap();
    });
    let ended = ended.recv_timeout(Duration::from_mins(1)).expect("the run ends");
    assert!(matches!(ended, Err(RunError::NoRuntime { .. })), "{ended:?}");
}

const NODES: [&str; 10] = ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j"];

/// A row of nodes in the background, in which this commit waits for the gate, and then perhaps fails.
fn held(number: usize, gate: &Arc<Semaphore>, fails: bool) -> Bench<Layered<Hooked>> {
    let (gate, commits) = (gate.clone(), AtomicUsize::new(0));
    let hook = move |call| {
        let is_held = matches!(call, Call::Commit(_)) && commits.fetch_add(1, Ordering::SeqCst) == number;
        let gate = gate.clone();
        async move {
            if !is_held {
                return Ok(());
            }
            let _open = gate.acquire().await;
            if fails { Err(SaverError::database("the disk", std::io::Error::other("it is full"))) } else { Ok(()) }
        }
    };
    let mut bench = Bench::on(row(&NODES), Hooked::new(hook));
    bench.config = bench.config.durability(Durability::Async);
    bench
}

/// Any commit of a run may wait. The run continues meanwhile, and later records are stored after it, or not at all.
#[tokio::test]
async fn pending_commit_is_finished_in_the_background() {
    // The first two are tried in place; then what waits is stored as one commit, and the last one by itself.
    for (number, fails) in (0..4).flat_map(|number| [(number, false), (number, true)]) {
        let gate = Arc::new(Semaphore::new(0));
        let bench = held(number, &gate, fails);
        let observer = async {
            // Nothing is stored meanwhile: whatever is going to happen has happened.
            for _ in 0..1000 {
                tokio::task::yield_now().await;
            }
            let (last, stored) = (bench.tally.of("j"), bench.history().await.len());
            gate.add_permits(1);
            (last, stored)
        };
        let (ended, (last, stored)) = tokio::join!(bench.start(json!({})), observer);
        assert_eq!(last, 1, "the run goes on while commit {number} waits");
        assert!((number..NODES.len() + 2).contains(&stored), "{stored} checkpoints before commit {number}");
        let kept = log_of(&bench.state().await);
        if fails {
            let error = ended.unwrap_err().to_string();
            assert!(error.contains("it is full"), "commit {number}: {error}");
            assert_eq!(bench.history().await.len(), stored, "nothing is stored after commit {number}");
        } else {
            assert_eq!(log(ended.unwrap()), json!(NODES), "commit {number}");
            assert_eq!(kept, json!(NODES), "commit {number}");
        }
    }
}
