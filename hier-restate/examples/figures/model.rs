//! What runs cost by a model of four constants, held against runs that it was not fitted to.

use hier_restate::RemoteGraph;

use crate::site::{Site, Spent};
use crate::{Failed, WIDTH, many};

/// A load: so many threads, each of one run of so many supersteps or rounds.
#[derive(Clone, Copy)]
struct Load<'a> {
    name: &'a str,
    graph: &'a RemoteGraph,
    threads: u64,
    length: u64,
}

/// What each of these costs.
struct Model {
    /// A run: its call, its begin, its end.
    run: Spent,
    /// A superstep that is followed by another at once.
    short: Spent,
    /// One that takes long: it begins an invocation, or ends it.
    long: Spent,
    /// A task that is sent away.
    task: Spent,
}

async fn cost(site: &Site, load: Load<'_>) -> Result<Spent, Failed> {
    let before = site.spent()?;
    many(load.graph, load.name, load.threads, load.length).await?;
    Ok(site.spent()?.each(before, |after, before| after - before))
}

fn per(spent: Spent, count: u64) -> Spent {
    spent.each(spent, |amount, _| amount / count as f64)
}

/// `from` without so many of these.
fn without(from: Spent, each: Spent, count: u64) -> Spent {
    from.each(each, |from, each| from - each * count as f64)
}

/// Fits the model, and prints it beside loads that it has not seen.
pub(crate) async fn told(
    site: &Site,
    narrow: &RemoteGraph,
    slow: &RemoteGraph,
    wide: &RemoteGraph,
) -> Result<(), Failed> {
    let load = |name, graph, threads, length| Load { name, graph, threads, length };
    let two = per(cost(site, load("fit-2", narrow, 300, 2)).await?, 300);
    let many = per(cost(site, load("fit-22", narrow, 300, 22)).await?, 300);
    let short = per(without(many, two, 1), 20);
    let run = without(two, short, 2);
    let rests = per(cost(site, load("fit-slow", slow, 200, 10)).await?, 200);
    let long = per(without(rests, run, 1), 10);
    // A round has two supersteps that are recorded, and its tasks.
    let rounds = per(cost(site, load("fit-wide", wide, 20, 10)).await?, 20);
    let task = per(without(without(rounds, run, 1), short, 20), 10 * WIDTH);
    let model = Model { run, short, long, task };
    let row = |what: &str, spent: Spent| {
        println!("| {what} | {:.2} | {:.2} | {:.1} |", spent.server * 1e3, spent.own * 1e3, spent.written / 1024.0);
    };
    println!(
        "\n| | processor of the server, ms | of the worker and the client, ms | written by the server, KiB |\n|---|---|---|---|"
    );
    row("a run", model.run);
    row("a short superstep", model.short);
    row("a long superstep", model.long);
    row("a task that is sent away", model.task);
    for (held, step, name) in [
        (load("held-short", narrow, 120, 60), model.short, "120 runs of 60 short supersteps"),
        (load("held-slow", slow, 60, 40), model.long, "60 runs of 40 long supersteps"),
    ] {
        let computed = model.run.each(step, |run, step| held.threads as f64 * (run + step * held.length as f64));
        row(&format!("{name}, computed"), computed);
        row(&format!("{name}, measured"), cost(site, held).await?);
    }
    Ok(())
}
