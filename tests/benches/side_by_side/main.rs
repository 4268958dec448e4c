//! Runs equal workloads in hier and LangGraph, one after the other: `scripts/bench.sh langgraph`.
//!
//! Prints a table of the best times and their ratios. The script installs LangGraph and sets
//! `HIER_REFERENCE_PYTHON` to the path of its Python.

use std::future::Future;
use std::process::Command;
use std::time::{Duration, Instant};

use hier_agents::prelude::*;
use hier_core::graph::Graph;
use serde_json::Value;

#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
struct Counter {
    count: u64,
    until: u64,
    bulk: Vec<u32>,
    items: u64,
    #[reducer(sum)]
    total: u64,
}

async fn count(state: &Counter) -> CounterUpdate {
    Counter::update().count(state.count + 1)
}

async fn nothing() {}

async fn one() -> CounterUpdate {
    Counter::update().total(1)
}

async fn add(Sent(item): Sent<u64>) -> CounterUpdate {
    Counter::update().total(item)
}

async fn wait(Sent(_): Sent<u64>) -> CounterUpdate {
    tokio::time::sleep(Duration::from_millis(20)).await;
    Counter::update().total(1)
}

async fn compute(Sent(_): Sent<u64>) -> CounterUpdate {
    let until = Instant::now() + Duration::from_millis(10);
    while Instant::now() < until {
        std::hint::spin_loop();
    }
    Counter::update().total(1)
}

fn more(state: &Counter) -> bool {
    state.count < state.until
}

fn items(state: &Counter) -> std::ops::Range<u64> {
    0..state.items
}

graph! {
    Loop<Counter> = Graph {
        nodes: [first = count, second = count, third = count],
        edges: [START >> first >> second >> third, third >> if more { first } else { END }],
    }
}

graph! {
    Steps<Counter> = Graph {
        nodes: [count],
        edges: [START >> count >> if more { count } else { END }],
    }
}

graph! {
    Sends<Counter> = Graph { nodes: [add], edges: [START >> for item in items { add(item) }, add >> END] }
}

graph! {
    Waits<Counter> = Graph { nodes: [wait], edges: [START >> for item in items { wait(item) }, wait >> END] }
}

graph! {
    Computes<Counter> = Graph { nodes: [compute], edges: [START >> for item in items { compute(item) }, compute >> END] }
}

macro_rules! hundred {
    ($($name:ident)*) => {
        graph! {
            FanOut<Counter> = Graph {
                nodes: [seed = nothing, gather = nothing, $($name = one),*],
                edges: [START >> seed >> [$($name),*] >> gather >> END],
            }
        }
    };
}

hundred! {
    n00 n01 n02 n03 n04 n05 n06 n07 n08 n09 n10 n11 n12 n13 n14 n15 n16 n17 n18 n19 n20 n21 n22 n23 n24 n25 n26 n27 n28 n29
    n30 n31 n32 n33 n34 n35 n36 n37 n38 n39 n40 n41 n42 n43 n44 n45 n46 n47 n48 n49 n50 n51 n52 n53 n54 n55 n56 n57 n58 n59
    n60 n61 n62 n63 n64 n65 n66 n67 n68 n69 n70 n71 n72 n73 n74 n75 n76 n77 n78 n79 n80 n81 n82 n83 n84 n85 n86 n87 n88 n89
    n90 n91 n92 n93 n94 n95 n96 n97 n98 n99
}

/// A workload: its name in LangGraph's output, its name in the table, and the divisor of its time.
struct Row {
    key: &'static str,
    name: &'static str,
    here: Duration,
    parts: u32,
}

async fn best<F: Future<Output = ()>>(times: u32, mut run: impl FnMut() -> F) -> Duration {
    let mut best = Duration::MAX;
    for _ in 0..times {
        let begin = Instant::now();
        run().await;
        best = best.min(begin.elapsed());
    }
    best
}

async fn run<G: Graph<State = Counter, Context = (), Output = Counter>>(input: CounterUpdate) -> Duration
where
    CounterUpdate: hier_core::graph::GraphInput<Counter, G::Input>,
{
    let graph = G::compile();
    let config = Config::new().recursion_limit(100_000);
    best(20, || async {
        let outcome = graph.invoke(input.clone()).config(config.clone()).await;
        assert!(outcome.is_ok_and(|outcome| outcome.is_finished()), "the workload must finish");
    })
    .await
}

async fn here() -> Vec<Row> {
    let row = |key, name, here, parts| Row { key, name, here, parts };
    let update = Counter::update;
    vec![
        row("loop", "3-node loop, per node", run::<Loop>(update().until(999)).await, 999),
        row("fan_out", "fan-out to 100 nodes and join, per node", run::<FanOut>(update()).await, 102),
        row("sends", "1,000 Sends in one step, per task", run::<Sends>(update().items(1000)).await, 1000),
        row("steps_tiny", "999-step loop, tiny state", run::<Steps>(update().until(999)).await, 1),
        row(
            "steps_100k",
            "999-step loop, 100 KB of state",
            run::<Steps>(update().until(999).bulk(vec![1; 25_000])).await,
            1,
        ),
        row("wait", "16 tasks that wait 20 ms", run::<Waits>(update().items(16)).await, 1),
        row("compute", "8 tasks of 10 ms of work", run::<Computes>(update().items(8)).await, 1),
    ]
}

fn reference() -> Result<Value, String> {
    let python = std::env::var("HIER_REFERENCE_PYTHON").map_err(|_| {
        "HIER_REFERENCE_PYTHON is not set: run scripts/bench.sh langgraph, which installs the reference".to_owned()
    })?;
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/benches/side_by_side/reference.py");
    let output =
        Command::new(&python).arg(script).output().map_err(|error| format!("cannot start {python}: {error}"))?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into_owned());
    }
    serde_json::from_slice(&output.stdout).map_err(|error| format!("the reference printed no JSON: {error}"))
}

fn main() -> Result<(), String> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let rows = runtime.map_err(|error| error.to_string())?.block_on(here());
    let reference = reference()?;
    println!("| workload | hier | LangGraph 1.2.22 | ratio |\n|---|---:|---:|---:|");
    for Row { key, name, here, parts } in rows {
        let there =
            reference.get(key).and_then(Value::as_f64).ok_or_else(|| format!("the reference did not run `{key}`"))?;
        let (here, there) = (here.as_secs_f64() / f64::from(parts), there / f64::from(parts));
        println!("| {name} | {} | {} | {} |", time(here), time(there), ratio(there / here));
    }
    Ok(())
}

fn ratio(ratio: f64) -> String {
    if ratio < 10.0 { format!("{ratio:.1}×") } else { format!("{ratio:.0}×") }
}

fn time(seconds: f64) -> String {
    match seconds {
        s if s < 1e-6 => format!("{:.0} ns", s * 1e9),
        s if s < 1e-3 => format!("{:.1} µs", s * 1e6),
        s => format!("{:.1} ms", s * 1e3),
    }
}
