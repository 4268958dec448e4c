//! A run that dies at each of its commits, and the one after it: the end is that of a run which was never disturbed, and
//! nothing that was stored is done again.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use hier_core::Durability;
use hier_core::checkpoint::{Checkpointer, ListQuery, MemorySaver};
use hier_core::prelude::*;
use hier_core::state::{Builtin, DynState, Schema};
use serde_json::{Value, json};
use uuid::Uuid;

use super::faulty::Faulty;
use super::kit::*;

/// A task that ran.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Ran {
    task: Uuid,
    node: String,
    namespace: String,
    step: i64,
}

type Log = Arc<Mutex<Vec<Ran>>>;

fn noted(log: &Log, writes: Value) -> Node {
    let log = log.clone();
    does(move |task| {
        let run = task.run();
        let (task_id, node, namespace) = (run.task_id(), run.node().to_owned(), run.namespace().join("|"));
        log.lock().unwrap().push(Ran { task: task_id, node, namespace, step: run.superstep() });
        let mut update = writes.clone();
        update["log"] = json!([[run.node(), task.sent_json()?, task.state().get("hint"), task.state().get("news")]]);
        Ok(update)
    })
}

fn channels() -> Schema {
    schema().reduced("done", Builtin::Sum).topic("news", false).topic("all", true).ephemeral("hint")
}

/// A loop with Sends, a graph of several steps, a join and a deferred node; with channels that expire.
fn tree(log: &Log) -> Builder {
    let mut inner = over(channels());
    inner = inner.node("i1", noted(log, json!({ "x": 3, "all": ["i1"] }))).node("i2", noted(log, json!({ "done": 1 })));
    inner = inner.node("i3", noted(log, json!({ "news": ["from i3"] }))).node("i4", noted(log, json!({ "done": 1 })));
    inner = inner.edge(START, "i1").edge("i1", "i2").edge("i1", "i3").join(["i2", "i3"], "i4");
    let mut graph = over(channels());
    graph = graph.node("seed", noted(log, json!({ "hint": "look", "news": ["a", "b"] })));
    graph = graph.node("left", noted(log, json!({ "done": 1 }))).node("work", noted(log, json!({ "done": 1 })));
    graph =
        graph.node("gather", noted(log, json!({ "all": ["gathered"] }))).node("late", noted(log, json!({ "done": 1 })));
    graph = graph.subgraph("sub", &compile(inner)).edge(START, "seed").edge("seed", "left").edge("seed", "sub");
    graph = graph
        .each("seed", "items", "work", |_| [1, 2])
        .join(["left", "sub"], "gather")
        .edge("work", "late")
        .defer("late");
    let again = |state: &DynState| if state.get("done").and_then(Value::as_i64) < Some(16) { "again" } else { "end" };
    graph = graph.route("gather", "again", [("again", vec!["seed"]), ("end", Vec::new())], again);
    graph
}

/// Those of the tasks of which the saver knows that they are done.
async fn committed(saver: &MemorySaver, ran: &[Ran]) -> BTreeSet<Ran> {
    let query = ListQuery { thread: Some("t".to_owned()), ..ListQuery::default() };
    let listed = saver.list(query).await.unwrap();
    let mut done: BTreeSet<Uuid> = BTreeSet::new();
    for at in &listed {
        let stored = saver.get("t", &at.namespace, Some(at.checkpoint.id)).await.unwrap().expect("it is listed");
        let finished =
            stored.writes.iter().filter(|task| task.writes.iter().any(|write| &*write.channel == "__routing__"));
        done.extend(finished.map(|task| task.task));
    }
    let applied = |task: &&Ran| {
        let same = listed.iter().filter(|at| *at.namespace == *task.namespace);
        same.map(|at| at.checkpoint.step).max() >= Some(task.step)
    };
    ran.iter().filter(|task| done.contains(&task.task) || applied(task)).cloned().collect()
}

/// Runs the tree with a saver that dies after this many commits (or not at all).
async fn run(memory: &MemorySaver, log: &Log, durability: Durability, commits: usize) -> Result<Value, RunError> {
    let mut bench = Bench::on(tree(log), Faulty::new(memory, commits));
    bench.config = bench.config.durability(durability);
    let begun = bench.state().await.checkpoint.is_some();
    let end = if begun { bench.continue_run().await? } else { bench.start(json!({ "x": 1, "all": ["in"] })).await? };
    assert!(end.is_finished());
    Ok(end.state().to_value())
}

/// Dies after `first` commits, then after `second`; then runs to its end. False if it did not die.
async fn dies_twice(durability: Durability, first: usize, second: usize, undisturbed: &Value) -> bool {
    let (memory, log) = (MemorySaver::new(), Log::default());
    let mut known = BTreeSet::new();
    let mut died = false;
    for commits in [first, second, usize::MAX] {
        let before = log.lock().unwrap().len();
        let end = run(&memory, &log, durability, commits).await;
        let ran = log.lock().unwrap().clone();
        let again: Vec<&Ran> = ran[before..].iter().filter(|task| known.contains(*task)).collect();
        assert!(again.is_empty(), "{durability:?}, {first} and {second} commits: done again: {again:?}");
        known = committed(&memory, &ran).await;
        match end {
            Ok(end) => {
                assert_eq!(end, *undisturbed, "{durability:?}, {first} and {second} commits");
                return died;
            }
            Err(error) => assert!(error.to_string().contains("the process has died"), "{error}"),
        }
        died = true;
    }
    panic!("the last run has no reason to die");
}

#[tokio::test]
async fn crash_at_any_commit_changes_no_result() {
    for durability in [Durability::Sync, Durability::Async, Durability::Exit] {
        let (memory, log) = (MemorySaver::new(), Log::default());
        let undisturbed = run(&memory, &log, durability, usize::MAX).await.unwrap();
        let ran = log.lock().unwrap().clone();
        assert_eq!(ran.iter().collect::<BTreeSet<_>>().len(), ran.len(), "each task has its own id");
        let mut deaths = 0;
        for first in 0.. {
            let mut died = false;
            for second in [0, 1, 2, 5, usize::MAX] {
                died |= dies_twice(durability, first, second, &undisturbed).await;
            }
            if !died {
                break;
            }
            deaths += 1;
        }
        let expected = if durability == Durability::Sync { 20 } else { 1 };
        assert!(deaths >= expected, "{durability:?}: only {deaths} commits");
    }
}
