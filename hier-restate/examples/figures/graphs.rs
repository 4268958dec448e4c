//! The graphs that are measured.

use std::time::Duration;

use hier_core::prelude::*;
use hier_restate::Endpoint;

use crate::loops::{Count, CountUpdate, Loop, Wide, is_over, seed, tick};

graph! {
    Slow<Count> = Graph {
        nodes: [rest],
        edges: [START >> rest >> if is_over { END } else { rest }],
    }
}

/// As long as a call of a model, as far as invocations are concerned: an invocation has few of them.
async fn rest(state: &Count) -> CountUpdate {
    tokio::time::sleep(Duration::from_millis(40)).await;
    Count::update().at(state.at + 1)
}

graph! {
    Tasks<Count> = Graph {
        nodes: [seed, wait, gather = tick],
        edges: [START >> seed >> for item in upto { wait(item) }, wait >> gather >> END],
    }
}

async fn wait(Sent(_item): Sent<u64>) {
    tokio::time::sleep(crate::scale::TASK).await;
}

/// As many tasks as the goal says.
fn upto(state: &Count) -> Vec<u64> {
    (0..state.goal).collect()
}

#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Talk {
    goal: u64,
    kib: usize,
    #[reducer(append)]
    said: Vec<String>,
}

graph! {
    Talks<Talk> = Graph {
        nodes: [say],
        edges: [START >> say >> if has_said { END } else { say }],
    }
}

/// Adds a message, and takes as long as `rest`.
async fn say(state: &Talk) -> TalkUpdate {
    tokio::time::sleep(Duration::from_millis(40)).await;
    // No two are alike, and none can be made much shorter: numbers that follow from each other.
    let mut number = state.said.len() as u64 + 1;
    let mut more = || {
        number = number.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        format!("{number:016x}")
    };
    Talk::update().said([(0..state.kib * 64).map(|_| more()).collect::<String>()])
}

fn has_said(state: &Talk) -> bool {
    state.said.len() as u64 >= state.goal
}

/// A worker with all of them.
pub(crate) fn worker() -> Endpoint {
    Endpoint::new()
        .graph("loop", Loop::compile(), ())
        .graph("slow", Slow::compile(), ())
        .graph("wide", Wide::compile(), ())
        .graph("talks", Talks::compile(), ())
        .graph("tasks", Tasks::compile(), ())
}
