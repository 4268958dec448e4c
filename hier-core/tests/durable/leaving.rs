//! If leaving the graph fails, or the inbox refuses a message, the finished tasks of the step are not run again.

use std::sync::Arc;

use hier_core::Durability;
use hier_core::checkpoint::{Checkpointer, Inbox, MemorySaver};
use hier_core::graph::ThreadMessage;
use hier_core::prelude::*;
use uuid::Uuid;

use crate::faulty::Faulty;
use crate::kit::Tally;

#[derive(State, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
struct Order {
    #[reducer(append)]
    log: Vec<String>,
    #[reducer(sum)]
    total: i64,
}

fn config() -> Config {
    Config::new().thread("t")
}

const MODES: [Durability; 3] = [Durability::Sync, Durability::Async, Durability::Exit];

async fn pays(run: &Run<Tally>) -> OrderUpdate {
    Order::update().log([format!("paid {}", run.context().hit("pays"))])
}

async fn ships(run: &Run<Tally>) -> OrderUpdate {
    Order::update().log([format!("shipped {}", run.context().hit("ships"))])
}

fn tells(state: &Order, run: &Run<Tally>) -> hier_core::Result<OrderUpdate> {
    match run.context().hit("tells") {
        times if times < 3 => Err(NodeError::permanent("no line")),
        _ => Ok(Order::update().log([format!("told of {}", state.log.len())])),
    }
}

fn is_done(order: &Order) -> bool {
    order.log.len() >= 2
}

graph! {
    Shop<Order, Tally> = Graph {
        nodes: [pays, ships],
        edges: [START >> pays >> if is_done { END } else { ships }, ships >> END],
        on_exit: tells,
    }
}

#[tokio::test]
async fn last_node_does_not_run_again_if_its_exit_hook_fails() {
    for durability in MODES {
        let (graph, tally) = (Shop::compile().checkpointer(MemorySaver::new()), Tally::default());
        let config = config().durability(durability);
        graph.invoke(Order::update()).config(config.clone()).context(tally.clone()).await.unwrap_err();
        let error = graph.invoke(()).config(config.clone()).context(tally.clone()).await.unwrap_err();
        assert!(error.to_string().contains("on_exit") && error.to_string().contains("no line"), "{error}");
        assert!(!graph.state(config.clone()).await.unwrap().is_finished(), "it has not been left");
        let end = graph.invoke(()).config(config.clone()).context(tally.clone()).await.unwrap();
        assert_eq!(end.state().log, ["paid 1", "shipped 1", "told of 2"], "{durability:?}");
        assert_eq!((tally.of("pays"), tally.of("ships"), tally.of("tells")), (1, 1, 3));
        assert!(graph.state(config).await.unwrap().is_finished());
    }
}

/// The process dies at each commit: the last node is done once, once it is known that it was.
#[tokio::test]
async fn exit_hook_runs_after_a_crash_at_any_commit() {
    for commits in 0..12 {
        let (memory, tally) = (MemorySaver::new(), Tally::default());
        tally.hit("tells");
        tally.hit("tells");
        let config = config().durability(Durability::Sync);
        let dying = Shop::compile().checkpointer(Arc::new(Faulty::new(&memory, commits)));
        let died = dying.invoke(Order::update()).config(config.clone()).context(tally.clone()).await.is_err();
        let is_begun = memory.get("t", "", None).await.unwrap().is_some();
        let graph = Shop::compile().checkpointer(memory);
        let end = match (died, is_begun) {
            (false, _) => break,
            (true, true) => graph.invoke(()).config(config).context(tally.clone()).await,
            (true, false) => graph.invoke(Order::update()).config(config).context(tally.clone()).await,
        };
        let log = end.unwrap().state().log.clone();
        assert!(log.len() == 3 && log[2] == "told of 2", "{commits}: {log:?}");
    }
}

async fn adds(run: &Run<Tally>) -> OrderUpdate {
    Order::update().log([format!("added {}", run.context().hit("adds"))])
}

graph! {
    Sums<Order, Tally> = Graph { nodes: [adds, ships], edges: [START >> adds >> ships >> END], inbox: total }
}

/// The messages are taken after the step of `adds`, whose result is kept.
#[tokio::test]
async fn refused_message_is_named_and_repeats_no_work() {
    for durability in MODES {
        let (saver, tally) = (MemorySaver::new(), Tally::default());
        let config = config().durability(durability);
        let graph = Sums::compile().checkpointer(saver.clone());
        let stops = config.clone().interrupt_before(["adds"]);
        assert!(!graph.invoke(Order::update()).config(stops).context(tally.clone()).await.unwrap().is_finished());
        for (number, value) in [(1, i64::MAX - 1), (2, i64::MAX - 1), (3, 1)] {
            graph.send("t", ThreadMessage::message(&value).id(Uuid::from_u128(number))).await.unwrap();
        }
        let error = graph.invoke(()).config(config.clone()).context(tally.clone()).await.unwrap_err().to_string();
        let id = Uuid::from_u128(2);
        let is_named =
            error.contains(&format!("message `{id}`")) && error.contains(&format!("hier inbox discard t {id}"));
        assert!(is_named && error.contains("overflow"), "{durability:?}: {error}");
        assert_eq!((tally.of("adds"), saver.messages("t").await.unwrap().len()), (1, 3), "{durability:?}");
        assert_eq!(graph.state(config.clone()).await.unwrap().next, ["ships"], "{durability:?}");
        // A new input is a step too.
        let error = graph
            .invoke(Order::update().log(["again"]))
            .config(config.clone())
            .context(tally.clone())
            .await
            .unwrap_err();
        assert!(error.to_string().contains(&format!("message `{id}`")), "{error}");
        assert_eq!(graph.state(config.clone()).await.unwrap().next, ["adds"], "{durability:?}");

        assert!(graph.discard("t", id).await.unwrap());
        // Both that are left are taken at once.
        let end = graph.invoke(()).config(config).context(tally.clone()).await.unwrap();
        assert_eq!(end.state().log, ["added 1", "again", "added 2", "shipped 1"], "{durability:?}");
        assert_eq!((end.state().total, saver.messages("t").await.unwrap().len()), (i64::MAX, 0), "{durability:?}");
    }
}
