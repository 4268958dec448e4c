//! Durations, which are only printed.

use std::time::Instant;

use hier_core::graph::DynInput;
use hier_core::prelude::*;
use hier_restate::FanOut;
use serde_json::json;

use crate::loops::{Loop, WIDTH, Wide};
use crate::support::serve;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a Restate server: run ./scripts/peers.sh cluster"]
async fn supersteps_of_one_task() {
    let graph = serve(|endpoint, name| endpoint.graph(name, Loop::compile(), ()).fan_out(FanOut::Local)).await;
    for round in 0..3 {
        let begun = Instant::now();
        let input = DynInput::New(json!({ "goal": 100, "at": 0 }));
        let end = graph.invoke(input).thread(format!("s{round}")).await.unwrap();
        assert_eq!(end.state()["at"], json!(100));
        println!("a superstep of one task: {:.2} ms", begun.elapsed().as_secs_f64() * 10.0);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a Restate server: run ./scripts/peers.sh cluster"]
async fn supersteps_of_eight_remote_tasks() {
    let graph = serve(|endpoint, name| endpoint.graph(name, Wide::compile(), ())).await;
    for round in 0..3 {
        let begun = Instant::now();
        let input = DynInput::New(json!({ "goal": 20, "at": 0 }));
        let end = graph.invoke(input).thread(format!("w{round}")).await.unwrap();
        assert_eq!(end.state()["at"], json!(20));
        println!(
            "a round of a step of {WIDTH} remote tasks and two of one: {:.2} ms",
            begun.elapsed().as_secs_f64() * 50.0
        );
    }
}
