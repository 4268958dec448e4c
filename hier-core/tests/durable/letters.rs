//! Durability `Exit`: a letter is taken in the commit that stores its effect, or stays where it is, also if graphs inside take it, fail,
//! are tried again or are cut off.

use std::sync::Arc;
use std::time::Duration;

use hier_core::checkpoint::{Checkpointer, Inbox, MemorySaver};
use hier_core::graph::{CompiledGraph, Signal};
use hier_core::prelude::*;
use hier_core::{Durability, Result};

use crate::faulty::Faulty;
use crate::kit::Tally;

#[derive(State, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
struct Order {
    #[reducer(append)]
    log: Vec<String>,
}

type Orders = CompiledGraph<Order, Tally>;

fn config() -> Config {
    Config::new().thread("t").durability(Durability::Exit)
}

/// Takes the signal. What comes after it is not done the first time.
async fn takes(run: &Run<Tally>) -> Result<OrderUpdate> {
    let receipt: String = run.signal("paid").await?;
    run.context().hit("took");
    Ok(Order::update().log([receipt]))
}

/// Fails at first, in a way that may pass.
async fn stumbles(run: &Run<Tally>) -> Result<OrderUpdate> {
    match run.context().hit("stumbled") {
        1 => Err(NodeError::new("at first")),
        _ => Ok(Order::update().log(["went on"])),
    }
}

/// Takes the signal, and never ends at first.
async fn hangs(run: &Run<Tally>) -> Result<OrderUpdate> {
    if run.context().hit("hung") == 1 {
        std::future::pending::<()>().await;
    }
    Ok(Order::update().log(["went on"]))
}

graph! { Stumbling<Order, Tally> = Graph { nodes: [takes, stumbles], edges: [START >> takes >> stumbles >> END] } }
graph! { Hanging<Order, Tally> = Graph { nodes: [takes, hangs], edges: [START >> takes >> hangs >> END] } }
graph! { Deep<Order, Tally> = Graph { nodes: [Taking, hangs], edges: [START >> Taking >> hangs >> END] } }
graph! { Taking<Order, Tally> = Graph { nodes: [takes], edges: [START >> takes >> END] } }

async fn begins() -> OrderUpdate {
    Order::update().log(["begun"])
}

graph! { Around<Order, Tally> = Graph { nodes: [begins, Stumbling], edges: [START >> begins >> Stumbling >> END] } }
graph! { Kept<Order, Tally> = Graph {
    nodes: [begins, Stumbling { checkpoints: per_thread }],
    edges: [START >> begins >> Stumbling >> END],
} }
graph! { Again<Order, Tally> = Graph {
    nodes: [begins, Stumbling { retry: 2 }],
    edges: [START >> begins >> Stumbling >> END],
} }
graph! { Cut<Order, Tally> = Graph {
    nodes: [begins, Hanging { retry: 2, timeout: 300ms }],
    edges: [START >> begins >> Hanging >> END],
} }
graph! { CutDeep<Order, Tally> = Graph {
    nodes: [begins, Deep { retry: 2, timeout: 300ms }],
    edges: [START >> begins >> Deep >> END],
} }

async fn waiting(saver: &MemorySaver) -> usize {
    saver.messages("t").await.expect("memory does not fail").len()
}

/// The process dies at each of the run's commits. The thread then continues as if it had not died.
async fn dies_anywhere(name: &str, compile: fn() -> Orders) {
    for commits in 0..6 {
        let (memory, tally) = (MemorySaver::new(), Tally::default());
        let graph = compile().checkpointer(memory.clone());
        graph.send("t", Signal::new("paid", &"r-17")).await.expect("a letter");
        let dying = compile().checkpointer(Arc::new(Faulty::new(&memory, commits)));
        let died = dying.invoke(Order::update()).config(config()).context(tally.clone()).await;
        assert!(died.is_err(), "{name}: it stumbles or dies");
        let is_begun = memory.get("t", "", None).await.expect("memory does not fail").is_some();
        let took = tally.of("took");
        let end = if is_begun {
            graph.invoke(()).config(config()).context(tally.clone()).await
        } else {
            graph.invoke(Order::update()).config(config()).context(tally.clone()).await
        };
        let end = end.unwrap_or_else(|error| panic!("{name}, {commits}: {error}"));
        assert!(end.is_finished(), "{name}, {commits}: the letter is lost");
        assert_eq!(end.state().log, ["begun", "r-17", "went on"], "{name}, {commits}");
        assert_eq!(waiting(&memory).await, 0, "{name}, {commits}: the letter is taken twice");
        assert!(took >= 1, "{name}, {commits}");
    }
}

#[tokio::test]
async fn failed_subgraph_keeps_the_signal_with_its_effect() {
    dies_anywhere("each call by itself", Around::compile).await;
    dies_anywhere("one that keeps its state", Kept::compile).await;
}

/// The work of a failed subgraph exists when it is retried, and none of it is stored before the end.
#[tokio::test]
async fn retried_subgraph_has_the_signal() {
    let (saver, tally) = (MemorySaver::new(), Tally::default());
    let graph = Again::compile().checkpointer(saver.clone());
    graph.send("t", Signal::new("paid", &"r-17")).await.expect("a letter");
    let end = graph.invoke(Order::update()).config(config()).context(tally.clone()).await.expect("it goes on");
    assert_eq!(end.state().log, ["begun", "r-17", "went on"]);
    assert_eq!((tally.of("took"), tally.of("stumbled"), waiting(&saver).await), (1, 2, 0));
}

/// A call that is cut off has stored nothing: the next finds the letter.
#[tokio::test]
async fn interrupted_subgraph_leaves_the_signal() {
    async fn cut(name: &str, graph: Orders) {
        let (saver, tally) = (MemorySaver::new(), Tally::default());
        let graph = graph.checkpointer(saver.clone());
        graph.send("t", Signal::new("paid", &"r-17")).await.expect("a letter");
        let running = graph.invoke(Order::update()).config(config()).context(tally.clone());
        let end = tokio::time::timeout(Duration::from_mins(1), running).await.expect("an end").expect("it goes on");
        assert!(end.is_finished(), "{name}: the letter is lost");
        assert_eq!(end.state().log, ["begun", "r-17", "went on"], "{name}");
        assert_eq!(waiting(&saver).await, 0, "{name}");
    }
    cut("a graph", Cut::compile()).await;
    cut("a graph inside it", CutDeep::compile()).await;
}

/// Returns true if another letter is expected.
fn has_more(order: &Order) -> bool {
    order.log.len() < 20
}

graph! { Looping<Order, Tally> = Graph { nodes: [Taking], edges: [START >> Taking >> if has_more { Taking } else { END }] } }

/// Leftovers of finished calls in finished steps are not kept until the end of the run.
#[tokio::test]
async fn finished_calls_remove_only_their_signals() {
    let (memory, tally) = (MemorySaver::new(), Tally::default());
    let saver = Arc::new(Faulty::new(&memory, usize::MAX));
    let graph = Looping::compile().checkpointer(saver.clone());
    for number in 0..20 {
        graph.send("t", Signal::new("paid", &format!("r-{number}"))).await.expect("a letter");
    }
    let end = graph.invoke(Order::update()).config(config()).context(tally).await.expect("it takes them all");
    assert_eq!((end.state().log.len(), waiting(&memory).await), (20, 0));
    let stored = saver.0.records.lock().expect("no test panics here").len();
    // The graph's own checkpoint, and the records of the last step's call.
    assert!(stored <= 3, "{stored} records are stored at the end");
}
