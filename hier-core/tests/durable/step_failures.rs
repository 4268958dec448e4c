//! A step that cannot be applied has not happened; a step that fails keeps the tasks that ended.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use hier_core::Durability;
use hier_core::graph::NodeDef;
use hier_core::prelude::*;
use hier_core::reducer::ReduceError;
use hier_core::state::Schema;
use serde_json::{Value, json};

use super::kit::*;

const MODES: [Durability; 3] = [Durability::Sync, Durability::Async, Durability::Exit];

/// `log` takes lists, and refuses that of `bad` while the flag is set.
fn refusing(refuses: &Arc<AtomicBool>) -> Schema {
    let refuses = refuses.clone();
    Schema::new().last("x").reduced_with("log", json!([]), move |list: &mut Value, new: Value| {
        if new == json!(["bad"]) && refuses.load(Ordering::Relaxed) {
            return Err(ReduceError::new("not this one"));
        }
        let new = new.as_array().cloned().unwrap_or_default();
        list.as_array_mut().into_iter().for_each(|list| list.extend(new.iter().cloned()));
        Ok(())
    })
}

/// `first`, then `bad` and `good` at once, then `z`.
fn bench(refuses: &Arc<AtomicBool>, durability: Durability, bad: Node) -> Bench {
    let mut graph = over(refusing(refuses));
    graph = graph.node("first", mark()).node("bad", bad).node("good", mark()).node("z", mark());
    graph = graph.edge(START, "first").edge("first", "bad").edge("first", "good").join(["bad", "good"], "z");
    let mut bench = Bench::new(graph);
    bench.config = bench.config.durability(durability);
    bench
}

#[tokio::test]
async fn failed_step_runs_again() {
    for durability in MODES {
        let refuses = Arc::new(AtomicBool::new(true));
        let bench = bench(&refuses, durability, mark());
        for attempt in 1..=3 {
            let error = if attempt == 1 { bench.start(json!({ "x": 1 })).await } else { bench.continue_run().await }
                .unwrap_err();
            assert!(
                matches!(&error, RunError::Reduce { node, channel, .. } if node == "bad" && channel == "log"),
                "{error}"
            );
            let live = bench.state().await;
            assert_eq!((log_of(&live), live.next), (json!(["first"]), vec!["bad".to_owned(), "good".to_owned()]));
            assert_eq!(bench.tally.all(), json!({ "first": 1, "bad": attempt, "good": attempt }), "{durability:?}");
        }
        refuses.store(false, Ordering::Relaxed);
        assert_eq!(log(bench.continue_run().await.unwrap()), json!(["first", "bad", "good", "z"]), "{durability:?}");
        assert_eq!(bench.tally.all(), json!({ "first": 1, "bad": 4, "good": 4, "z": 1 }));
    }
}

/// Void writes stay void if the node fails or asks before it runs again.
#[tokio::test]
async fn unapplied_writes_never_return() {
    for durability in MODES {
        let refuses = Arc::new(AtomicBool::new(true));
        let bad = NodeDef::task(|task: NodeTask| async move {
            match task.run().context().hit("bad") {
                1 => task.state().update(json!({ "log": ["bad"] })),
                2 => Err(NodeError::permanent("boom")),
                _ => {
                    let answer: Value = task.run().interrupt(&"q").await?;
                    task.state().update(json!({ "log": [answer] }))
                }
            }
        });
        let bench = bench(&refuses, durability, bad);
        bench.start(json!({ "x": 1 })).await.unwrap_err();
        refuses.store(false, Ordering::Relaxed);
        let error = bench.continue_run().await.unwrap_err();
        assert!(error.to_string().contains("boom"), "{durability:?}: {error}");
        assert_eq!(asked(bench.continue_run().await.unwrap()), ["q"], "{durability:?}");
        assert_eq!(bench.state().await.next, ["bad"]);
        assert_eq!(log(bench.answer("A").await.unwrap()), json!(["first", "A", "good", "z"]), "{durability:?}");
    }
}

#[tokio::test]
async fn failed_step_of_one_task_runs_again() {
    for durability in MODES {
        let refuses = Arc::new(AtomicBool::new(true));
        let mut graph = over(refusing(&refuses));
        graph = graph.node("a", mark()).node("bad", mark()).node("z", mark());
        graph = graph.edge(START, "a").edge("a", "bad").edge("bad", "z");
        let mut bench = Bench::new(graph);
        bench.config = bench.config.durability(durability);
        bench.start(json!({ "x": 1 })).await.unwrap_err();
        bench.continue_run().await.unwrap_err();
        assert_eq!(bench.state().await.next, ["bad"], "{durability:?}");
        assert_eq!(log_of(&bench.state().await), json!(["a"]), "{durability:?}");
        refuses.store(false, Ordering::Relaxed);
        assert_eq!(log(bench.continue_run().await.unwrap()), json!(["a", "bad", "z"]), "{durability:?}");
        assert_eq!(bench.tally.all(), json!({ "a": 1, "bad": 3, "z": 1 }), "{durability:?}");
    }
}

/// The writes and the routing of a node are committed together.
#[tokio::test]
async fn panicking_route_leaves_its_node_unfinished() {
    for durability in MODES {
        let panics = Arc::new(AtomicBool::new(true));
        let mut graph = marks(&["a", "b", "sibling"]);
        let broken = panics.clone();
        graph = graph.edge(START, "a").edge(START, "sibling").route("a", "broken", [("go", vec!["b"])], move |_| {
            assert!(!broken.load(Ordering::Relaxed), "broken");
            "go"
        });
        let mut bench = Bench::new(graph);
        bench.config = bench.config.durability(durability);
        let error = bench.start(json!({ "x": 1 })).await.unwrap_err();
        assert!(matches!(&error, RunError::Node { node, .. } if node == "a"), "{error}");
        let live = bench.state().await;
        assert_eq!((live.next, live.tasks[0].error.is_some()), (vec!["a".to_owned()], true), "{durability:?}");
        panics.store(false, Ordering::Relaxed);
        assert_eq!(log(bench.continue_run().await.unwrap()), json!(["a", "sibling", "b"]), "{durability:?}");
        assert_eq!(bench.tally.all(), json!({ "a": 2, "sibling": 1, "b": 1 }), "{durability:?}");
    }
}

fn good_and_bad(durability: Durability) -> Bench {
    let mut graph = marks(&["good", "after"]);
    graph = graph.node("bad", fails(1)).edge(START, "good").edge(START, "bad").join(["good", "bad"], "after");
    let mut bench = Bench::new(graph);
    bench.config = bench.config.durability(durability);
    bench
}

#[tokio::test]
async fn finished_tasks_do_not_run_again() {
    for durability in MODES {
        let bench = good_and_bad(durability);
        let error = bench.start(json!({ "x": 1 })).await.unwrap_err();
        assert!(matches!(&error, RunError::Node { node, .. } if node == "bad"), "{error}");
        let live = bench.state().await;
        assert_eq!((log_of(&live), &live.next), (json!(["good"]), &vec!["bad".to_owned()]), "{durability:?}");
        let record = bench.graph.state(live.config).await.unwrap();
        assert_eq!((log_of(&record), record.next), (json!([]), vec!["bad".to_owned(), "good".to_owned()]));
        let received =
            record.tasks.iter().map(|task| (task.node.as_str(), task.error.as_deref(), task.result.is_some()));
        assert_eq!(received.collect::<Vec<_>>(), [("bad", Some("boom"), false), ("good", None, true)]);
        assert_eq!(log(bench.continue_run().await.unwrap()), json!(["bad", "good", "after"]), "{durability:?}");
        assert_eq!(bench.tally.all(), json!({ "good": 1, "bad": 2, "after": 1 }), "{durability:?}");
    }
}

#[tokio::test]
async fn new_input_starts_at_the_entry() {
    let bench = good_and_bad(Durability::Sync);
    bench.start(json!({ "x": 1 })).await.unwrap_err();
    let end = bench.start(json!({ "x": 2 })).await.unwrap();
    assert_eq!(end.state().to_value(), json!({ "x": 2, "log": ["bad", "good", "after"] }));
    assert_eq!(bench.tally.all(), json!({ "good": 2, "bad": 2, "after": 1 }));
}

/// The key belongs to the task: unique, and the same when it runs again.
#[tokio::test(start_paused = true)]
async fn idempotency_keys_are_those_of_tasks() {
    let keys = Arc::new(std::sync::Mutex::new(Vec::new()));
    let noted = keys.clone();
    let tells = move |boom: bool| {
        let noted = noted.clone();
        does(move |task| {
            let (key, node) = (task.run().idempotency_key(), task.run().node().to_owned());
            noted.lock().unwrap().push((node.clone(), key));
            let count = task.run().context().of(&node);
            // An attempt that is retried, then a failure of the run.
            if boom && count < 4 {
                Err(if count == 1 { NodeError::new("retry") } else { NodeError::permanent("boom") })
            } else {
                Ok(json!({}))
            }
        })
    };
    let mut graph = builder();
    graph = graph.node("seed", tells(false)).node("boom", tells(true).retry(2)).node("sent", tells(false));
    graph = graph.edge(START, "seed").edge("seed", "boom").each("seed", "items", "sent", |_| [1, 2, 3]);
    let bench = Bench::new(graph);
    bench.start(json!({ "x": 1 })).await.unwrap_err();
    bench.continue_run().await.unwrap_err();
    assert!(bench.continue_run().await.unwrap().is_finished());
    let keys = keys.lock().unwrap().clone();
    let of = |name: &str| keys.iter().filter(|(node, _)| node == name).map(|(_, key)| key.clone()).collect::<Vec<_>>();
    assert_eq!(of("boom").len(), 4);
    assert!(of("boom").iter().all(|key| *key == of("boom")[0]), "{keys:?}");
    let mut all: Vec<String> = [of("seed"), of("sent"), of("boom")[..1].to_vec()].concat();
    assert_eq!(all.len(), 5, "finished tasks ran once");
    all.sort();
    all.dedup();
    assert_eq!(all.len(), 5, "{keys:?}");
    assert!(all.iter().all(|key| key.starts_with("t//")), "{keys:?}");
}
