//! A loop of 999 steps with the saver in memory: nothing is encoded that did not change.

use criterion::{BatchSize, Criterion};
use hier_agents::prelude::*;
use hier_core::checkpoint::MemorySaver;
use hier_core::graph::CompiledGraph;

use super::{Busy, Counter, Tiny, runtime};

const STEPS: u32 = 999;

pub(crate) fn benches(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("999 steps");
    group.sample_size(30);
    let tiny = Counter { goal: STEPS, ..Counter::default() };
    let big = Counter { goal: STEPS, big: "b".repeat(100_000), ..Counter::default() };
    let runtime = runtime();
    let mut bench = |name: &str, graph: &CompiledGraph<Counter>, input: &Counter, saved: bool| {
        group.bench_function(name, |bencher| {
            // Each run has its own saver, so that earlier histories do not slow it down.
            let fresh = || if saved { graph.clone().checkpointer(MemorySaver::default()) } else { graph.clone() };
            bencher.to_async(&runtime).iter_batched(
                || (fresh(), input.clone()),
                |(graph, input)| async move {
                    let config = Config::new().thread("t").recursion_limit(2_000);
                    let outcome = graph.invoke(input).config(config).await.expect("a run");
                    assert_eq!(outcome.state().count, STEPS);
                    graph
                },
                BatchSize::PerIteration,
            );
        });
    };
    bench("no saver", &Tiny::compile(), &tiny, false);
    bench("memory saver, tiny state", &Tiny::compile(), &tiny, true);
    bench("memory saver, 100 bytes change", &Busy::compile(), &tiny, true);
    bench("memory saver, 100 bytes of 100 KB change", &Busy::compile(), &big, true);
    group.finish();
}
