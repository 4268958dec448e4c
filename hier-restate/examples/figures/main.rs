//! What a superstep on the cluster costs, beside a handler written by hand that does the same calls in the same run.
//!
//! ```text
//! scripts/restate.sh with cargo run --release -p hier-restate --example figures
//! ```
//!
//! Workers and client are this process; the server is the one that the script starts. Prints a table,
//! and a model of what runs cost. On a loaded machine only the ratios mean something.

#![allow(clippy::cast_precision_loss, reason = "counts of figures are small")]

mod bare;
mod model;
mod site;

use std::fmt::Write as _;
use std::time::{Duration, Instant};

use futures_util::future::try_join_all;
use hier_core::graph::DynInput;
use hier_core::prelude::*;
use hier_restate::{Client, Endpoint, RemoteGraph, loopback, register};
use serde_json::json;

use crate::bare::{BareLoop, BareTask, BareWide};
use crate::site::Site;

type Failed = Box<dyn std::error::Error + Send + Sync>;

/// How many tasks a wide step has.
const WIDTH: u64 = 8;
/// How many supersteps or rounds a measured thread has.
const LENGTH: u64 = 100;
const ROUNDS: u64 = 20;
/// How many threads run at once, and how many supersteps each.
const THREADS: u64 = 1_000;
const SHORT: u64 = 5;
/// How often each pair is measured; the best of each is told.
const TIMES: usize = 5;

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
    (0..WIDTH).collect()
}

async fn hier(graph: &RemoteGraph, thread: &str, goal: u64) -> std::result::Result<(), Failed> {
    let input = DynInput::New(json!({ "at": 0, "goal": goal }));
    let end = graph.invoke(input, Config::thread(thread).recursion_limit(1_000)).await?;
    if end.state()["at"] != json!(goal) {
        return Err(format!("thread `{thread}` ended otherwise: {end:?}").into());
    }
    Ok(())
}

/// Threads at once.
async fn many(graph: &RemoteGraph, name: &str, threads: u64, goal: u64) -> std::result::Result<(), Failed> {
    let thread = |number| {
        let (graph, thread) = (graph.clone(), format!("{name}-{number}"));
        async move { hier(&graph, &thread, goal).await }
    };
    try_join_all((0..threads).map(thread)).await?;
    Ok(())
}

/// The least of several times, in milliseconds.
struct Best(f64);

impl Best {
    fn new() -> Self {
        Self(f64::INFINITY)
    }

    fn take(&mut self, begun: Instant) {
        self.0 = self.0.min(begun.elapsed().as_secs_f64() * 1_000.0);
    }
}

#[tokio::main]
async fn main() -> std::result::Result<(), Failed> {
    let site = Site::of_surroundings()?;
    let (listener, address) = loopback().await?;
    let endpoint = Endpoint::new().graph("loop", Loop::compile(), ()).graph("slow", Slow::compile(), ()).graph(
        "wide",
        Wide::compile(),
        (),
    );
    tokio::spawn(endpoint.serve_until(listener, std::future::pending::<()>()));
    register(&site.admin, &format!("http://{address}")).await?;
    let (listener, address) = loopback().await?;
    socket2::SockRef::from(&listener).set_tcp_nodelay(true)?;
    let bare = restate_sdk::endpoint::Endpoint::builder().bind(BareLoop).bind(BareWide).bind(BareTask).build();
    tokio::spawn(restate_sdk::http_server::HttpServer::new(bare).serve(listener));
    register(&site.admin, &format!("http://{address}")).await?;
    let client = Client::new(&site.ingress);
    let (narrow, wide) = (client.graph("loop"), client.graph("wide"));

    let load = std::fs::read_to_string("/proc/loadavg")?;
    let mut table = format!("load of the machine: {load}\n| | hier | by hand | ratio |\n|---|---|---|---|\n");
    let mut row = |what: &str, own: f64, hand: f64| {
        let _ = writeln!(table, "| {what} | {own:.2} ms | {hand:.2} ms | {:.2} |", own / hand);
    };
    // Both in turn, so that the machine treats them alike.
    let (mut own, mut hand, mut own_wide, mut hand_wide) = (Best::new(), Best::new(), Best::new(), Best::new());
    for time in 0..TIMES {
        let begun = Instant::now();
        hier(&narrow, &format!("s{time}"), LENGTH).await?;
        own.take(begun);
        let begun = Instant::now();
        site.bare("BareLoop", &format!("s{time}"), LENGTH).await?;
        hand.take(begun);
        let begun = Instant::now();
        hier(&wide, &format!("w{time}"), ROUNDS).await?;
        own_wide.take(begun);
        let begun = Instant::now();
        site.bare("BareWide", &format!("w{time}"), ROUNDS).await?;
        hand_wide.take(begun);
    }
    row("a superstep of one local task", own.0 / LENGTH as f64, hand.0 / LENGTH as f64);
    row("a round of 8 remote tasks between two local ones", own_wide.0 / ROUNDS as f64, hand_wide.0 / ROUNDS as f64);

    let (mut own, mut hand) = (Best::new(), Best::new());
    let mut memory = Vec::new();
    for time in 0..2 {
        let begun = Instant::now();
        many(&narrow, &format!("m{time}"), THREADS, SHORT).await?;
        own.take(begun);
        memory.push(site::resident()?);
        let begun = Instant::now();
        let bare = (0..THREADS).map(|number| {
            let (site, key) = (&site, format!("m{time}-{number}"));
            async move { site.bare("BareLoop", &key, SHORT).await }
        });
        try_join_all(bare).await?;
        hand.take(begun);
    }
    let supersteps = (THREADS * SHORT) as f64;
    row("1,000 threads of 5 supersteps at once, each superstep", own.0 / supersteps, hand.0 / supersteps);
    println!("{table}");
    for (time, bytes) in memory.iter().enumerate() {
        println!("after {} finished threads this process has {} MiB", (time as u64 + 1) * THREADS, bytes >> 20);
    }
    model::told(&site, &narrow, &client.graph("slow"), &wide).await
}
