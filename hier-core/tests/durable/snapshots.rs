//! Reading threads: live and as a record, and their history with its filters.

use hier_core::Durability;
use hier_core::checkpoint::{ListQuery, MemorySaver, Source};
use hier_core::graph::NodeDef;
use hier_core::prelude::*;
use serde_json::json;

use super::faulty::Faulty;
use super::kit::*;

#[tokio::test]
async fn unknown_thread_is_empty() {
    let bench = Bench::new(row(&["a"]));
    let state = bench.state().await;
    assert_eq!((state.values.to_value(), state.next.len(), state.checkpoint), (json!({ "log": [] }), 0, None));
    assert!(bench.history().await.is_empty());
}

#[tokio::test]
async fn history_is_filtered() {
    let bench = Bench::new(row(&["a", "b"]));
    assert!(bench.start(json!({ "x": 1 })).await.unwrap().is_finished());
    let second = bench.config.clone().metadata("customer", "Ada").metadata("nested", json!({ "a": [1] }));
    let input = bench.update(json!({ "x": 2 }));
    assert!(bench.graph.invoke(input).config(second).context(bench.tally.clone()).await.unwrap().is_finished());
    let steps = async |query: ListQuery| -> Vec<i64> {
        let history = bench.graph.history(bench.config.clone(), query).await.unwrap();
        history.iter().map(|at| at.step).collect()
    };
    let filter = |filter: serde_json::Value| ListQuery {
        filter: filter.as_object().cloned().unwrap_or_default(),
        ..ListQuery::default()
    };
    assert_eq!(steps(ListQuery::default()).await, [6, 5, 4, 3, 2, 1, 0, -1]);
    assert_eq!(steps(ListQuery { limit: Some(3), ..ListQuery::default() }).await, [6, 5, 4]);
    assert_eq!(steps(filter(json!({ "source": "input" }))).await, [3, -1]);
    assert_eq!(steps(filter(json!({ "step": 1 }))).await, [1]);
    assert_eq!(steps(filter(json!({ "customer": "Ada" }))).await, [6, 5, 4, 3]);
    assert_eq!(steps(filter(json!({ "customer": "Ada", "source": "loop", "nested": { "a": [1] } }))).await, [6, 5, 4]);
    assert_eq!(steps(filter(json!({ "customer": "ada" }))).await, [0_i64; 0]);
    let at = bench.history().await[3].checkpoint;
    assert_eq!(steps(ListQuery { before: at, ..ListQuery::default() }).await, [1, 0, -1]);
    assert_eq!(steps(ListQuery { before: at, limit: Some(1), ..filter(json!({ "source": "loop" })) }).await, [1]);
    let one = bench.config.clone().checkpoint(at.unwrap());
    let only = bench.graph.history(one, ListQuery::default()).await.unwrap();
    assert_eq!((only.len(), only[0].step), (1, 2));
    // The thread is that of the configuration.
    assert_eq!(steps(ListQuery::thread("other")).await.len(), 8);
}

#[tokio::test]
async fn snapshot_has_everything_of_its_checkpoint() {
    let bench = Bench::new(row(&["a", "b"]));
    let before = std::time::SystemTime::now();
    assert!(bench.start(json!({ "x": 1 })).await.unwrap().is_finished());
    let history = bench.history().await;
    let at = &history[2];
    assert_eq!((at.step, at.source, &at.parent), (1, Some(Source::Loop), &history[1].checkpoint));
    assert_eq!((at.values.to_value(), &at.next), (json!({ "x": 1, "log": ["a"] }), &vec!["b".to_owned()]));
    assert_eq!((at.tasks.len(), at.tasks[0].node.as_str(), at.tasks[0].send), (1, "b", None));
    let made = at.created_at.unwrap();
    assert!(made >= before - std::time::Duration::from_millis(1) && made <= std::time::SystemTime::now());
    assert_eq!(at.config.checkpoint_id(), at.checkpoint);
    let same = bench.graph.state(at.config.clone()).await.unwrap();
    assert_eq!((same.checkpoint, same.values.to_value()), (at.checkpoint, at.values.to_value()));
}

/// After a kill all tasks of a step may be finished but not applied. Nothing has to run, and the thread has not ended.
#[tokio::test]
async fn unapplied_step_is_not_an_end() {
    let pair = || {
        let mut graph = marks(&["a", "b"]);
        graph = graph.edge(START, "a").edge(START, "b");
        graph
    };
    // The last successful commit has the writes of the two.
    let mut commits = 0;
    let bench = loop {
        commits += 1;
        let memory = MemorySaver::new();
        let mut dying = Bench::on(pair(), Faulty::new(&memory, commits));
        dying.config = dying.config.durability(Durability::Sync);
        dying.start(json!({ "x": 0 })).await.expect_err("the process dies");
        let bench = Bench::on(pair(), memory);
        if bench.state().await.tasks.iter().filter(|task| task.result.is_some()).count() == 2 {
            break bench;
        }
    };
    let open = bench.state().await;
    assert_eq!((open.next.len(), open.tasks.len(), open.is_finished()), (0, 2, false));
    assert!(bench.history().await.iter().all(|record| !record.is_finished()));
    assert_eq!(log(bench.continue_run().await.unwrap()), json!(["a", "b"]));
    assert!(bench.tally.all() == json!({}) && bench.state().await.is_finished());
    let unknown = bench.graph.state("unknown").await.unwrap();
    assert!(unknown.is_finished());
}

/// The live view of Sends shows the remaining ones.
#[tokio::test]
async fn snapshot_shows_sends_of_an_open_step() {
    let mut graph = marks(&["seed"]);
    graph = graph.node(
        "work",
        does(|task| match task.sent_json()? {
            Some(item) if item == 2 && task.run().context().hit("two") == 1 => Err(NodeError::permanent("two")),
            item => Ok(json!({ "log": [item] })),
        }),
    );
    graph = graph.edge(START, "seed").each("seed", "items", "work", |_| [1, 2, 3]);
    let bench = Bench::new(graph);
    bench.start(json!({ "x": 1 })).await.unwrap_err();
    let live = bench.state().await;
    assert_eq!((live.next.as_slice(), log_of(&live)), (&["work".to_owned()][..], json!(["seed", 1, 3])));
    let sends: Vec<_> = live.tasks.iter().map(|task| (task.send, task.result.is_some(), task.error.clone())).collect();
    assert_eq!(sends, [(Some(0), true, None), (Some(1), false, Some("two".to_owned())), (Some(2), true, None)]);
    let record = bench.graph.state(live.config).await.unwrap();
    assert_eq!((record.next.len(), log_of(&record)), (3, json!(["seed"])));
    assert_eq!(log(bench.continue_run().await.unwrap()), json!(["seed", 1, 2, 3]));
    assert_eq!(bench.tally.of("work"), 4);
}

/// A run whose consumer left can be continued.
#[tokio::test]
async fn dropped_stream_leaves_a_continuable_thread() {
    let reached = std::sync::Arc::new(tokio::sync::Notify::new());
    let tell = reached.clone();
    let slow = NodeDef::task(move |task: NodeTask| {
        let tell = tell.clone();
        async move {
            if task.run().context().hit("slow") == 1 {
                tell.notify_one();
                std::future::pending::<()>().await;
            }
            task.state().update(json!({ "log": ["slow"] }))
        }
    });
    let mut graph = marks(&["a", "fast"]);
    graph = graph.node("slow", slow).edge(START, "a").edge("a", "slow").edge("a", "fast");
    let bench = Bench::new(graph);
    let input = bench.update(json!({ "x": 1 }));
    let mut stream = bench
        .graph
        .stream(input)
        .config(bench.config.clone())
        .context(bench.tally.clone())
        .modes([StreamMode::Updates]);
    let mut received = Vec::new();
    while received.len() < 2 {
        received.push(stream.next().await.unwrap().unwrap().to_json().unwrap()["data"].clone());
    }
    assert_eq!(received[1], json!({ "fast": { "log": ["fast"] } }));
    reached.notified().await;
    drop(stream);
    assert_eq!(log(bench.continue_run().await.unwrap()), json!(["a", "fast", "slow"]));
    assert_eq!(bench.tally.all(), json!({ "a": 1, "fast": 1, "slow": 2 }));
}
