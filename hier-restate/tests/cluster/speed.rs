//! How long things take: printed, and held to nothing but an end.

use std::time::Instant;

use hier_core::graph::DynInput;
use hier_core::prelude::*;
use hier_restate::FanOut;
use serde_json::json;

use crate::support::serve;

#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
struct Count {
    at: u64,
    goal: u64,
}

graph! {
    Loop<Count> = Graph {
        nodes: [tick],
        edges: [START >> tick >> if is_over { END } else { tick }],
    }
}

async fn tick(state: &Count) -> CountUpdate {
    Count::update().at(state.at + 1)
}

fn is_over(state: &Count) -> bool {
    state.at >= state.goal
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn supersteps_of_one_task() {
    let Some(graph) = serve(|endpoint, name| endpoint.graph(name, Loop::compile(), ()).fan_out(FanOut::Local)).await
    else {
        return;
    };
    for round in 0..3 {
        let begun = Instant::now();
        let input = DynInput::New(json!({ "goal": 100, "at": 0 }));
        let end = graph.invoke(input, Config::thread(format!("s{round}"))).await.unwrap();
        assert_eq!(end.state()["at"], json!(100));
        println!("a superstep of one task: {:.2} ms", begun.elapsed().as_secs_f64() * 10.0);
    }
}

graph! {
    Wide<Count> = Graph {
        nodes: [seed, work, gather],
        edges: [
            START >> seed >> for item in items { work(item) },
            work >> gather >> if is_over { END } else { seed },
        ],
    }
}

async fn seed() {}

async fn work(Sent(_item): Sent<u64>) {}

async fn gather(state: &Count) -> CountUpdate {
    Count::update().at(state.at + 1)
}

fn items(_: &Count) -> Vec<u64> {
    (0..8).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn supersteps_of_eight_remote_tasks() {
    let Some(graph) = serve(|endpoint, name| endpoint.graph(name, Wide::compile(), ())).await else { return };
    for round in 0..3 {
        let begun = Instant::now();
        let input = DynInput::New(json!({ "goal": 20, "at": 0 }));
        let end = graph.invoke(input, Config::thread(format!("w{round}"))).await.unwrap();
        assert_eq!(end.state()["at"], json!(20));
        println!("a round of a step of 8 remote tasks and two of one: {:.2} ms", begun.elapsed().as_secs_f64() * 50.0);
    }
}
