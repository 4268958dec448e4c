//! The number of rows that the server reads for a commit. It does not depend on the length of the thread, and shows that the statements
//! of a commit are planned once for a connection: the planner reads rows of the indexes, too, three times as many as the commit.
//!
//! Needs a server: `scripts/postgres.sh test -p hier-postgres`.

mod kit;

use std::time::Duration;

use hier_core::checkpoint::{Checkpointer, Claim, Lease};
use hier_core::runs::{NewRun, Request, RunClaim, RunCommit, RunStore};
use hier_postgres::Postgres;
use kit::server::{connected, server};

const SCHEMA: &str = "rows_read";
const LENGTH: usize = 300;
const MEASURED: usize = 50;
/// The most rows of a commit: its thread, its parent and those of a run.
const MOST: i64 = 8;

async fn store() -> Postgres {
    Postgres::options().schema(SCHEMA).connect(&server()).await.expect("the server")
}

/// Commits steps, alternately with and without the thread's run.
async fn steps(store: &Postgres, lease: &Lease, held: &Lease, count: usize) {
    let (mut last, mut alone) = (None, None);
    for number in 0..count {
        let channels = [(0, number > 0, vec![7]), (1, false, vec![8])];
        let (checkpoint, record) = kit::next(last.as_ref(), &channels, 2);
        store.driver().commit_run(lease, RunCommit::records(vec![record])).await.expect("stored");
        last = Some(checkpoint);
        let (checkpoint, record) = kit::next(alone.as_ref(), &channels, 2);
        store.commit(held, vec![record].into()).await.expect("stored");
        alone = Some(checkpoint);
    }
}

/// Opens a store, commits steps of two threads, and closes it.
async fn work(threads: [&str; 2], count: usize) {
    let store = store().await;
    let new = NewRun::new(threads[0], "desk", Request::input(serde_json::json!({}))).create_thread();
    store.driver().create_run(new).await.expect("a run");
    let claim = RunClaim::new("worker", Duration::from_mins(1), ["desk"]);
    let lease = store.driver().claim_run(claim).await.expect("the server").expect("the run").lease;
    let held = store.acquire(threads[1], Claim::default()).await.expect("free");
    steps(&store, &lease, &held, count).await;
}

/// The rows that all sessions have read, as soon as those of closed stores have reported theirs.
async fn rows_read(sql: &tokio_postgres::Client) -> i64 {
    let open =
        format!("select count(*) from pg_stat_activity where query like '%\"{SCHEMA}\".%' and pid <> pg_backend_pid()");
    while sql.query_one(&open, &[]).await.expect("the server").get::<_, i64>(0) > 0 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let read = format!(
        "select (select sum(idx_tup_read) from pg_stat_user_indexes where schemaname = '{SCHEMA}')::bigint
            + (select sum(seq_tup_read) from pg_stat_user_tables where schemaname = '{SCHEMA}')::bigint"
    );
    sql.query_one(&read, &[]).await.expect("the server").get(0)
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Postgres: run ./scripts/test.sh"]
async fn commit_reads_few_rows_and_is_not_planned_again() {
    store().await.migrate().await.expect("tables");
    let sql = connected(&server()).await;
    work(["long", "alone"], LENGTH).await;
    // The planner now knows how long threads are.
    sql.batch_execute("analyze").await.expect("the server");
    let before = rows_read(&sql).await;
    work(["next", "next_alone"], MEASURED).await;
    let commits = i64::try_from(2 * MEASURED).expect("a small number");
    let each = (rows_read(&sql).await - before) / commits;
    println!("rows that a commit reads: {each}");
    assert!(each <= MOST, "a commit reads {each} rows");
}
