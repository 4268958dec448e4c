//! Reading the state of a thread costs the same however long its history is.

use criterion::Criterion;
use hier_agents::prelude::*;
use hier_core::checkpoint::{Checkpointer, MemorySaver};
use hier_sqlite::Sqlite;

use super::{Counter, Tiny, runtime};

pub(crate) fn benches(criterion: &mut Criterion) {
    let runtime = runtime();
    let folder = tempfile::tempdir().expect("a folder");
    let sqlite = runtime.block_on(Sqlite::open(folder.path().join("bench.db"))).expect("a database");
    read(criterion, &runtime, "memory", MemorySaver::default());
    read(criterion, &runtime, "SQLite", sqlite);
}

fn read(criterion: &mut Criterion, runtime: &tokio::runtime::Runtime, name: &str, saver: impl Checkpointer) {
    let mut group = criterion.benchmark_group("the state of a thread");
    group.sample_size(30);
    let graph = Tiny::compile().checkpointer(saver);
    for checkpoints in [10, 1_000] {
        let input = Counter { goal: checkpoints, ..Counter::default() };
        let thread = format!("t{checkpoints}");
        let outcome = runtime.block_on(graph.invoke(input).thread(&thread).into_future()).expect("a run");
        assert!(outcome.is_finished());
        group.bench_function(format!("{name}, {checkpoints} checkpoints"), |bencher| {
            bencher.to_async(runtime).iter(|| async {
                let state = graph.state(&thread).await.expect("a state");
                assert_eq!(state.values.count, checkpoints);
            });
        });
    }
    group.finish();
}
