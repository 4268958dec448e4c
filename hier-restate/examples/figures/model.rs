//! A cost model of a few constants, compared with runs that it was not fitted to.

use futures_util::future::try_join_all;
use hier_core::graph::DynInput;
use hier_restate::{Client, RemoteGraph, register};
use serde_json::json;

use crate::Failed;
use crate::loops::WIDTH;
use crate::relay::Relay;
use crate::scale::Worker;
use crate::site::{Site, Spent};

/// A separate worker, with a counter of its bytes.
struct Place<'a> {
    site: &'a Site,
    client: &'a Client,
    worker: Worker,
    relay: Relay,
}

/// The cost of each of these.
#[derive(Clone, Copy)]
struct Model {
    /// A run: its call, its begin, its end.
    run: Spent,
    /// A superstep that is followed by another at once.
    short: Spent,
    /// One that takes long: it begins an invocation, or ends it.
    long: Spent,
    /// A task that is sent away.
    task: Spent,
    /// A KiB that a superstep changes.
    kib: Spent,
}

impl Place<'_> {
    /// The cost of each of this many threads, with one run of this many supersteps or rounds.
    async fn cost(&self, graph: &str, name: &str, threads: u64, goal: u64, kib: u64) -> Result<Spent, Failed> {
        let graph: &RemoteGraph = &self.client.graph(graph);
        let before = self.site.spent(self.worker.id(), &self.relay).await?;
        let thread = |number| {
            let input = if kib > 0 { json!({ "goal": goal, "kib": kib }) } else { json!({ "at": 0, "goal": goal }) };
            let thread = format!("{name}-{number}");
            graph.invoke(DynInput::New(input)).thread(thread).recursion_limit(10_000).into_future()
        };
        try_join_all((0..threads).map(thread)).await?;
        let after = self.site.spent(self.worker.id(), &self.relay).await?;
        Ok(after.each(before, |after, before| (after - before) / threads as f64))
    }
}

fn times(spent: Spent, count: f64) -> Spent {
    spent.each(spent, |amount, _| amount * count)
}

fn plus(one: Spent, other: Spent) -> Spent {
    one.each(other, |one, other| one + other)
}

/// Subtracts this many of these from `from`.
fn without(from: Spent, each: Spent, count: u64) -> Spent {
    plus(from, times(each, -(count as f64)))
}

fn row(what: &str, spent: Spent) {
    let kib = |bytes: f64| bytes / 1024.0;
    let (wire, log, store, disk) = (kib(spent.wire), kib(spent.log), kib(spent.store), kib(spent.disk));
    let (server, worker) = (spent.server * 1e3, spent.worker * 1e3);
    println!("| {what} | {server:.2} | {worker:.2} | {wire:.1} | {log:.1} | {store:.1} | {disk:.1} |");
}

/// Fits the model, and compares it with loads that it was not fitted to.
pub(crate) async fn report(site: &Site, client: &Client) -> Result<(), Failed> {
    let worker = Worker::start(1_000).await?;
    let relay = Relay::to(worker.address).await?;
    register(&site.admin, &format!("http://{}", relay.address)).await?;
    let place = Place { site, client, worker, relay };
    place.cost("loop", "warm", 200, 10, 0).await?;
    let two = place.cost("loop", "fit-2", 400, 2, 0).await?;
    let many = place.cost("loop", "fit-22", 400, 22, 0).await?;
    let short = times(without(many, two, 1), 1.0 / 20.0);
    let run = without(two, short, 2);
    let rests = place.cost("slow", "fit-slow", 200, 10, 0).await?;
    let long = times(without(rests, run, 1), 1.0 / 10.0);
    // A round has two supersteps that are recorded, and its tasks.
    let rounds = place.cost("wide", "fit-wide", 40, 10, 0).await?;
    let task = times(without(without(rounds, run, 1), short, 20), 1.0 / (10 * WIDTH) as f64);
    // Ten times 4 KiB each: not long enough for a head.
    let talks = place.cost("talks", "fit-talks", 100, 10, 4).await?;
    let kib = times(without(without(talks, run, 1), long, 10), 1.0 / 40.0);
    let model = Model { run, short, long, task, kib };
    println!(
        "\n| | processor of the server, ms | of the worker, ms | between the two, KiB | log, KiB | store, KiB | disk, KiB |"
    );
    println!("|---|---|---|---|---|---|---|");
    for (what, spent) in
        [("a run", run), ("a short superstep", short), ("a long superstep", long), ("a task that is sent away", task)]
    {
        row(what, spent);
    }
    row("a KiB that a superstep changes", model.kib);
    let computed = without(without(model.run, model.short, 0), model.short, 0);
    let held = plus(computed, times(model.short, 60.0));
    row("a run of 60 short supersteps, computed", held);
    row("the same, measured", place.cost("loop", "held-short", 120, 60, 0).await?);
    let held = plus(model.run, plus(times(model.long, 30.0), times(model.kib, 30.0)));
    row("a run of 30 long supersteps that each add 1 KiB, computed", held);
    row("the same, measured", place.cost("talks", "held-talks", 80, 30, 1).await?);
    let held = plus(model.run, plus(times(model.short, 6.0), times(model.task, (3 * WIDTH) as f64)));
    row("a run of 3 rounds of 8 remote tasks, computed", held);
    row("the same, measured", place.cost("wide", "held-wide", 100, 3, 0).await?);
    Ok(())
}
