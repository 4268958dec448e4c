//! Measures the cost of a superstep on the cluster, compared with hand-written handlers that make the same calls in the same run.
//!
//! ```text
//! scripts/bench.sh cluster            # all of it
//! scripts/bench.sh cluster pairs      # or one of: pairs, crowd, speedup, memory, model
//! ```
//!
//! The worker and the client are this process, and where it says so workers are processes of their own; the server is the one that
//! the script starts. Prints tables. On a loaded machine only the ratios mean something: hier and the handlers by hand take turns,
//! and a ratio is the median of those of the pairs.

#![allow(clippy::cast_precision_loss, reason = "counts of figures are small")]

mod bare;
mod calls;
mod front;
mod graphs;
#[path = "../../tests/cluster/loops.rs"]
mod loops;
mod model;
mod relay;
mod scale;
mod site;

use std::time::Instant;

use futures_util::future::try_join_all;
use hier_core::graph::DynInput;
use hier_restate::{Client, RemoteGraph, loopback, register};
use serde_json::json;

use crate::bare::{BareLoop, BareRuns, BareStraight, BareTask, BareWide, Order};
use crate::site::Site;

type Failed = Box<dyn std::error::Error + Send + Sync>;

/// The number of supersteps or rounds of a measured thread.
const LENGTH: u64 = 100;
const ROUNDS: u64 = 20;
/// The number of threads that run at once, and of supersteps of each.
const THREADS: u64 = 1_000;
const SHORT: u64 = 5;
/// The number of measurements of each pair.
const TIMES: usize = 9;

async fn hier(graph: &RemoteGraph, thread: &str, goal: u64) -> Result<(), Failed> {
    let input = DynInput::New(json!({ "at": 0, "goal": goal }));
    let end = graph.invoke(input).thread(thread).recursion_limit(1_000).await?;
    if end.state()["at"] != json!(goal) {
        return Err(format!("thread `{thread}` ended otherwise: {end:?}").into());
    }
    Ok(())
}

async fn by_hand(site: &Site, object: &str, key: &str, goal: u64) -> Result<(), Failed> {
    let order = Order { object: object.to_owned(), key: key.to_owned(), goal };
    site.bare("BareRuns/invoke", &order, true).await
}

/// Threads at once.
async fn many(graph: &RemoteGraph, name: &str, threads: u64, goal: u64) -> Result<(), Failed> {
    let thread = |number| {
        let (graph, thread) = (graph.clone(), format!("{name}-{number}"));
        async move { hier(&graph, &thread, goal).await }
    };
    try_join_all((0..threads).map(thread)).await?;
    Ok(())
}

/// The middle one.
fn median(of: &mut [f64]) -> f64 {
    of.sort_by(f64::total_cmp);
    of[of.len() / 2]
}

/// Times of pairs, in milliseconds.
#[derive(Default)]
struct Pairs {
    hier: Vec<f64>,
    hand: Vec<f64>,
}

impl Pairs {
    fn print(&mut self, what: &str, count: u64) {
        let mut ratios: Vec<f64> = self.hier.iter().zip(&self.hand).map(|(hier, hand)| hier / hand).collect();
        let (hier, hand) = (median(&mut self.hier) / count as f64, median(&mut self.hand) / count as f64);
        println!("| {what} | {hier:.2} ms | {hand:.2} ms | {:.2} |", median(&mut ratios));
    }
}

/// Measures its duration in milliseconds.
async fn timed(work: impl Future<Output = Result<(), Failed>>) -> Result<f64, Failed> {
    let begun = Instant::now();
    work.await?;
    Ok(begun.elapsed().as_secs_f64() * 1_000.0)
}

/// The same, and how many milliseconds of processors of the server, the worker and the client it takes. What else runs on the machine
/// makes it hardly longer.
async fn spent(site: &Site, work: impl Future<Output = Result<(), Failed>>) -> Result<(f64, f64), Failed> {
    let before = site.processor()?;
    let took = timed(work).await?;
    Ok((took, site.processor()? - before))
}

/// One thread at a time.
async fn pairs(site: &Site, narrow: &RemoteGraph, wide: &RemoteGraph) -> Result<(), Failed> {
    let (mut one, mut eight, mut straight) = (Pairs::default(), Pairs::default(), Pairs::default());
    for time in 0..=TIMES {
        let (s, w) = (format!("s{time}"), format!("w{time}"));
        let own = timed(hier(narrow, &s, LENGTH)).await?;
        let hand = timed(by_hand(site, "BareLoop", &s, LENGTH)).await?;
        let straightly = timed(site.bare(&format!("BareStraight/{s}/run"), &LENGTH, false)).await?;
        let own_wide = timed(hier(wide, &w, ROUNDS)).await?;
        let hand_wide = timed(by_hand(site, "BareWide", &w, ROUNDS)).await?;
        // The first are cold.
        if time > 0 {
            one.hier.push(own);
            one.hand.push(hand);
            straight.hier.push(own);
            straight.hand.push(straightly);
            eight.hier.push(own_wide);
            eight.hand.push(hand_wide);
        }
    }
    one.print("a superstep of one local task", LENGTH);
    eight.print("a round of 8 remote tasks between two local ones", ROUNDS);
    straight.print("a superstep of one local task; by hand in one invocation, without hand-overs", LENGTH);
    Ok(())
}

/// Many threads at once.
async fn crowd(site: &Site, graph: &RemoteGraph, object: &str, what: (&str, u64, u64)) -> Result<(), Failed> {
    let (what, threads, goal) = what;
    let (mut pairs, mut processor) = (Pairs::default(), Pairs::default());
    for time in 0..4 {
        let own = spent(site, many(graph, &format!("m{time}-{goal}"), threads, goal)).await?;
        let hand = spent(site, async {
            let thread = |number| {
                let key = format!("m{time}-{goal}-{number}");
                async move { by_hand(site, object, &key, goal).await }
            };
            try_join_all((0..threads).map(thread)).await.map(drop)
        });
        let hand = hand.await?;
        if time > 0 {
            pairs.hier.push(own.0);
            pairs.hand.push(hand.0);
            processor.hier.push(own.1);
            processor.hand.push(hand.1);
        }
    }
    pairs.print(what, threads * goal);
    processor.print(&format!("{what}; processor of server, worker and client"), threads * goal);
    Ok(())
}

/// Checks that both make the same calls.
async fn same(site: &Site, narrow: &RemoteGraph, wide: &RemoteGraph) -> Result<(), Failed> {
    // Until something has run the server may not be able to say what has.
    hier(narrow, "warm", 1).await?;
    for (name, graph, services, object, by) in [
        ("3 supersteps of one task", narrow, ["loop.run", "loop", "loop.task"], "BareLoop", ["BareRuns", "BareLoop"]),
        ("3 rounds of 8 remote tasks", wide, ["wide.run", "wide", "wide.task"], "BareWide", ["BareRuns", "BareWide"]),
    ] {
        let mut by = by.to_vec();
        by.push("BareTask");
        site.keep_journals(&services, true).await?;
        site.keep_journals(&by, true).await?;
        let before = (site.calls(&services).await?, site.calls(&by).await?);
        hier(graph, "calls", 3).await?;
        by_hand(site, object, "calls", 3).await?;
        println!("{name}, hier: {}", site.calls(&services).await?.since(&before.0));
        println!("{name}, by hand: {}", site.calls(&by).await?.since(&before.1));
        site.keep_journals(&services, false).await?;
        site.keep_journals(&by, false).await?;
    }
    println!();
    Ok(())
}

#[tokio::main]
async fn main() -> Result<(), Failed> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let wanted = match &arguments[..] {
        [role, address, at_once] if role == "worker" => return scale::serve(address, at_once).await,
        [] => ["pairs", "crowd", "speedup", "memory", "model"].map(str::to_owned).to_vec(),
        some => some.to_vec(),
    };
    let site = Site::of_surroundings()?;
    let (listener, address) = loopback().await?;
    tokio::spawn(graphs::worker().serve_until(listener, std::future::pending::<()>()));
    register(&site.admin, &format!("http://{address}")).await?;
    let (listener, bare) = loopback().await?;
    socket2::SockRef::from(&listener).set_tcp_nodelay(true)?;
    let builder = restate_sdk::endpoint::Endpoint::builder();
    let by_hand = builder.bind(BareRuns).bind(BareLoop).bind(BareWide).bind(BareTask).bind(BareStraight).build();
    tokio::spawn(restate_sdk::http_server::HttpServer::new(by_hand).serve(listener));
    register(&site.admin, &format!("http://{bare}")).await?;
    let client = Client::new(&site.ingress);
    let (narrow, wide) = (client.graph("loop"), client.graph("wide"));

    println!("load of the machine: {}", std::fs::read_to_string("/proc/loadavg")?);
    let has = |part: &str| wanted.iter().any(|wanted| wanted == part);
    if has("pairs") {
        same(&site, &narrow, &wide).await?;
    }
    if has("pairs") || has("crowd") {
        println!("| | hier | by hand | ratio |\n|---|---|---|---|");
    }
    if has("pairs") {
        pairs(&site, &narrow, &wide).await?;
    }
    if has("crowd") {
        let steps = ("1,000 threads of 5 supersteps at once, each superstep", THREADS, SHORT);
        crowd(&site, &narrow, "BareLoop", steps).await?;
        crowd(&site, &narrow, "BareLoop", ("50 threads of 100 supersteps at once, each superstep", 50, LENGTH)).await?;
        crowd(&site, &wide, "BareWide", ("20 threads of 10 rounds at once, each round", 20, 10)).await?;
    }
    if has("model") {
        model::report(&site, &client).await?;
    }
    // From here on the workers are others.
    if has("speedup") {
        scale::speedup(&site, &client.graph("tasks")).await?;
    }
    if has("memory") {
        scale::memory(&site, &narrow).await?;
    }
    Ok(())
}
