//! Failures: retry, handlers, timeouts; results that are used again; stopping between steps.

use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use hier_core::graph::{NodeDef, Retry, Task};
use hier_core::prelude::*;
use hier_core::state::{DynState, DynUpdate};
use hier_core::{NodeErrorKind, RunControl, StopReason, TimeoutKind};
use serde_json::{Value, json};
use tokio::time::Instant;

use super::{compile, error, marks, outcome, payloads, run};

/// The number of attempts of a node that always fails, and the seconds between them.
async fn attempts(retry: Retry, failure: impl Fn() -> NodeError + Send + Sync + 'static) -> (usize, Vec<f64>) {
    let times = Arc::new(Mutex::new(Vec::new()));
    let noted = times.clone();
    let node = NodeDef::task(move |_: Task<DynState>| {
        noted.lock().expect("no test panics here").push(Instant::now());
        std::future::ready(Err::<DynUpdate, _>(failure()))
    });
    let mut graph = marks(&[]);
    graph = graph.node("f", node.retry(retry)).edge(START, "f");
    error(graph, json!({ "x": 1 })).await;
    let times = times.lock().expect("no test panics here");
    // The clock of the test counts in milliseconds.
    let waits =
        times.windows(2).map(|pair| (pair[1] - pair[0]).as_secs_f64()).map(|wait| (wait * 100.0).round() / 100.0);
    (times.len(), waits.collect())
}

/// Differs: an error says itself whether another attempt may help, and unknown errors are retried (the last part).
#[tokio::test(start_paused = true)]
async fn waits_grow_up_to_the_cap() {
    let exact = Retry { jitter: 0.0, ..Retry::default() };
    let transient = || NodeError::new("no connection");
    assert_eq!(attempts(exact, transient).await, (3, vec![0.5, 1.0]));
    assert_eq!(attempts(exact, || NodeError::permanent("no number")).await, (1, vec![]));
    let seconds = Duration::from_secs;
    let long = Retry { attempts: 6, interval: seconds(1), factor: 3.0, cap: seconds(10), ..exact };
    assert_eq!(attempts(long, transient).await, (6, vec![1.0, 3.0, 9.0, 10.0, 10.0]));
    assert_eq!(attempts(Retry { attempts: 2, ..exact }, transient).await, (2, vec![0.5]));
    assert_eq!(attempts(exact, || std::io::Error::other("disk").into()).await, (3, vec![0.5, 1.0]));
}

/// A node that fails, with this handler.
fn handled<Fut>(handler: impl Fn(Task<DynState>) -> Fut + Send + Sync + 'static) -> NodeDef<DynState>
where
    Fut: Future<Output = hier_core::Result<Command<DynState>>> + Send + 'static,
{
    let boom = |_: Task<DynState>| std::future::ready(Err::<DynUpdate, _>(NodeError::permanent("boom")));
    NodeDef::task(boom).on_error(handler)
}

#[tokio::test]
async fn handled_node_does_not_follow_its_edges() {
    let mut graph = marks(&["b"]);
    let handler = async |task: Task<DynState>| {
        let failure = task.failure();
        let failure = failure.map(|failure| json!(["h", failure.node, failure.error.to_string()]));
        Ok(Command::update(task.state().update(json!({ "log": [failure] }))?))
    };
    graph = graph.node("a", handled(handler)).edge(START, "a").edge("a", "b");
    assert_eq!(run(graph, json!({ "x": 1 })).await, json!({ "x": 1, "log": [["h", "a", "boom"]] }));
}

#[tokio::test]
async fn handler_can_name_the_next_node() {
    let mut graph = marks(&["b"]);
    let handler =
        async |task: Task<DynState>| Ok(Command::update(task.state().update(json!({ "log": ["h"] }))?).goto("b"));
    graph = graph.node("a", handled(handler)).edge(START, "a");
    let updates = payloads(&compile(graph), json!({ "x": 1 }), StreamMode::Updates).await;
    let expected = [json!({ "__error_handler__a": { "log": ["h"] } }), json!({ "b": { "log": ["b"] } })];
    assert_eq!(updates, expected);
}

#[tokio::test(start_paused = true)]
async fn node_that_takes_too_long_fails() {
    let slow = NodeDef::task(|_: Task<DynState>| tokio::time::sleep(Duration::from_millis(500)));
    let limit = Duration::from_millis(100);
    let mut graph = marks(&[]);
    graph = graph.node("a", slow.timeout(limit)).edge(START, "a");
    let error = error(graph, json!({ "x": 1 })).await;
    let RunError::Node { node, error, .. } = &error else { panic!("{error}") };
    assert_eq!(node, "a");
    let expired = matches!(error.kind(), NodeErrorKind::Timeout { kind: TimeoutKind::Run, limit: of } if *of == limit);
    assert!(expired, "{error}");
}

#[tokio::test]
async fn result_is_reused_for_an_equal_input() {
    let count = Arc::new(AtomicI64::new(0));
    let runs = count.clone();
    let node = NodeDef::task(move |task: Task<DynState>| {
        let run = runs.fetch_add(1, Ordering::Relaxed) + 1;
        let update = task.state().update(json!({ "log": [run] }));
        async move { update }
    });
    let mut graph = marks(&[]);
    graph = graph.node("c", node.cache(Duration::from_mins(1))).edge(START, "c");
    let graph = compile(graph);
    let mut updates: Vec<Value> = Vec::new();
    for x in [1, 1, 2] {
        updates.extend(payloads(&graph, json!({ "x": x }), StreamMode::Updates).await);
    }
    let expected = [
        json!({ "c": { "log": [1] } }),
        json!({ "c": { "log": [1] }, "__metadata__": { "cached": true } }),
        json!({ "c": { "log": [2] } }),
    ];
    assert_eq!(updates, expected);
    assert_eq!(count.load(Ordering::Relaxed), 2);
}

/// The first half; going on needs a saver. A drain is an outcome here, not an error.
#[tokio::test]
async fn drained_run_stops_before_its_next_step() {
    let control = RunControl::new();
    let drains = |control: &RunControl| {
        let control = control.clone();
        NodeDef::task(move |task: Task<DynState>| {
            control.request_drain("sig");
            let update = task.state().update(json!({ "log": ["d"] }));
            async move { update }
        })
    };
    let mut graph = marks(&["n"]);
    graph = graph.node("d", drains(&control)).edge(START, "d").edge("d", "n");
    let stopped = outcome(graph, json!({ "x": 1 }), Config::new().control(control)).await.expect("it stops");
    let Outcome::Stopped(stopped) = stopped else { panic!("{stopped:?}") };
    assert_eq!((stopped.reason, stopped.next), (StopReason::Drained("sig".to_owned()), vec!["n".to_owned()]));
    assert_eq!(stopped.state.to_value(), json!({ "x": 1, "log": ["d"] }));

    let control = RunControl::new();
    let mut graph = marks(&[]);
    graph = graph.node("d", drains(&control)).edge(START, "d");
    let end = outcome(graph, json!({ "x": 1 }), Config::new().control(control)).await.expect("it ends");
    assert!(end.is_finished());
}
