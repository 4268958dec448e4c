//! The cost of a step in a database, compared with a bare transaction.

use std::time::{Duration, Instant};

use criterion::Criterion;
use hier_agents::prelude::*;
use hier_core::Durability;
use hier_core::checkpoint::{Checkpointer, MemorySaver};
use hier_postgres::Postgres;
use hier_sqlite::Sqlite;
use tokio::runtime::Runtime;

use super::{Counter, Tiny, runtime};

const STEPS: u32 = 400;

/// Returns the time of one step, in runs of this many steps.
fn step(
    criterion: &mut Criterion,
    runtime: &Runtime,
    name: &str,
    saver: impl Checkpointer + Clone,
    durability: Durability,
) {
    let mut group = criterion.benchmark_group("a step");
    group.sample_size(10);
    let graph = Tiny::compile().checkpointer(saver);
    let mut thread = 0;
    group.bench_function(name, |bencher| {
        bencher.iter_custom(|iterations| {
            let mut spent = Duration::ZERO;
            for _ in 0..iterations {
                thread += 1;
                let input = Counter { goal: STEPS, ..Counter::default() };
                let config = Config::new().thread(format!("{name}-{thread}")).durability(durability);
                let start = Instant::now();
                let outcome = runtime.block_on(graph.invoke(input).config(config).into_future()).expect("a run");
                assert!(outcome.is_finished());
                spent += start.elapsed() / STEPS;
            }
            spent
        });
    });
    group.finish();
}

/// The floor of SQLite: a separate transaction for one row.
fn bare_sqlite(criterion: &mut Criterion, folder: &std::path::Path) {
    let mut group = criterion.benchmark_group("a step");
    group.sample_size(10);
    let file = rusqlite::Connection::open(folder.join("bare.db")).expect("a file");
    file.execute_batch(
        "pragma journal_mode = wal; pragma synchronous = normal; create table rows (id integer primary key, body blob)",
    )
    .expect("a table");
    let mut statement = file.prepare("insert into rows (body) values (?1)").expect("a statement");
    group.bench_function("a bare transaction of SQLite", |bencher| {
        bencher.iter(|| statement.execute([vec![0_u8; 200]]).expect("a row"));
    });
    group.finish();
}

/// The floor of Postgres: one row, one round trip, committed.
fn bare_postgres(criterion: &mut Criterion, runtime: &Runtime, url: &str) {
    let mut group = criterion.benchmark_group("a step");
    group.sample_size(10);
    let client = runtime.block_on(async {
        let (client, connection) = tokio_postgres::connect(url, tokio_postgres::NoTls).await.expect("a connection");
        tokio::spawn(connection);
        client
            .batch_execute("create table if not exists bare_rows (id serial primary key, body bytea)")
            .await
            .expect("a table");
        client
    });
    let statement = runtime.block_on(client.prepare("insert into bare_rows (body) values ($1)")).expect("a statement");
    group.bench_function("a bare round trip of Postgres with commit", |bencher| {
        bencher.iter(|| runtime.block_on(client.execute(&statement, &[&vec![0_u8; 200]])).expect("a row"));
    });
    group.finish();
}

pub(crate) fn benches(criterion: &mut Criterion) {
    let runtime = runtime();
    let folder = tempfile::tempdir().expect("a folder");
    step(criterion, &runtime, "memory", MemorySaver::default(), Durability::Async);
    let sqlite = runtime.block_on(Sqlite::open(folder.path().join("bench.db"))).expect("a database");
    step(criterion, &runtime, "SQLite, async", sqlite.clone(), Durability::Async);
    step(criterion, &runtime, "SQLite, sync", sqlite, Durability::Sync);
    bare_sqlite(criterion, folder.path());
    let Ok(url) = std::env::var("HIER_TEST_POSTGRES") else { return };
    let postgres = runtime.block_on(async {
        let saver = Postgres::options().connect(&url).await.expect("a server");
        saver.migrate().await.expect("a schema");
        saver
    });
    step(criterion, &runtime, "Postgres, async", postgres.clone(), Durability::Async);
    step(criterion, &runtime, "Postgres, sync", postgres, Durability::Sync);
    bare_postgres(criterion, &runtime, &url);
}
