//! Deletion of expired and old data in separate transactions, so that each statement ends within its time limit.
//!
//! In each test, the server refuses to delete the last part of the data. The parts before it are deleted nevertheless.
//!
//! Needs a server: `scripts/postgres.sh test -p hier-postgres`.

mod kit;

use std::time::Duration;

use hier_core::checkpoint::{Checkpointer, Claim, ThreadAdmin};
use hier_core::runs::RunStore;
use hier_core::store::{Index, Op, Store, StoreOptions};
use hier_postgres::{Postgres, PostgresOptions, PostgresStore};
use kit::server::{connected, server};
use serde_json::Map;
use tokio_postgres::Client;

/// A server that refuses to delete some rows of a schema.
struct Refusing {
    sql: Client,
    url: String,
    schema: &'static str,
}

impl Refusing {
    async fn new(schema: &'static str) -> Self {
        let url = server();
        Self { sql: connected(&url).await, url, schema }
    }

    fn options(&self) -> PostgresOptions {
        Postgres::options().schema(self.schema).retry_for(Duration::ZERO)
    }

    async fn run(&self, sql: &str) {
        self.sql.batch_execute(&sql.replace("{s}", self.schema)).await.expect("the server");
    }

    /// Refuses to delete the rows of a table that meet a condition.
    async fn refuse(&self, table: &str, condition: &str) {
        let refuse = "create function {s}.refuse() returns trigger language plpgsql as $$ begin raise 'no'; end $$;
            create trigger refuse before delete on {s}.TABLE for each row when (CONDITION) execute function {s}.refuse()";
        self.run(&refuse.replace("TABLE", table).replace("CONDITION", condition)).await;
    }

    async fn allow(&self) {
        self.run("drop function {s}.refuse cascade").await;
    }

    async fn count(&self, table: &str) -> i64 {
        let sql = format!("select count(*) from {}.{table}", self.schema);
        self.sql.query_one(&sql, &[]).await.expect("the server").get(0)
    }
}

#[tokio::test]
#[ignore = "needs Postgres: run ./scripts/test.sh"]
async fn expired_threads_are_swept_in_several_transactions() {
    let server = Refusing::new("swept_threads").await;
    let saver = server.options().connect(&server.url).await.expect("the server");
    saver.migrate().await.expect("tables");
    let background = "10/background/a".to_owned();
    for thread in (0..24).map(|number| format!("{number:02}")).chain([background]) {
        let claim = Claim { time_to_live: Some(Duration::ZERO), ..Claim::default() };
        let lease = saver.acquire(&thread, claim).await.expect("the thread");
        saver.commit(&lease, vec![kit::next(None, &[], 1).1].into()).await.expect("a commit");
        saver.release(&lease).await.expect("the lease");
    }
    server.refuse("threads", "old.name = '23'").await;
    saver.sweep().await.expect_err("a thread cannot be deleted");
    let mut left: Vec<_> = saver.threads(None).await.expect("a list").into_iter().map(|info| info.thread).collect();
    left.sort();
    assert_eq!(left.iter().map(|name| &**name).collect::<Vec<_>>(), ["19", "20", "21", "22", "23"]);
    server.allow().await;
    assert_eq!(saver.sweep().await.expect("a sweep"), 5);
    assert_eq!(server.count("threads").await, 0);
}

#[tokio::test]
#[ignore = "needs Postgres: run ./scripts/test.sh"]
async fn expired_items_are_swept_in_several_transactions() {
    let server = Refusing::new("swept_items").await;
    let lives = StoreOptions::default().time_to_live(Duration::from_micros(1));
    let store = PostgresStore::connect_with(&server.url, server.options(), lives).await.expect("the server");
    store.migrate().await.expect("tables");
    for numbers in [0..1_000, 1_000..1_100] {
        let put = |number: u32| Op::Put {
            namespace: vec!["a".to_owned()],
            key: number.to_string(),
            value: Some(Map::new()),
            index: Index::default(),
            time_to_live: None,
        };
        store.batch(numbers.map(put).collect()).await.expect("items");
    }
    server.refuse("store_items", "old.key = '1099'").await;
    store.sweep().await.expect_err("an item cannot be deleted");
    assert_eq!(server.count("store_items").await, 100);
    server.allow().await;
    assert_eq!(store.sweep().await.expect("a sweep"), 100);
    assert_eq!((server.count("store_items").await, server.count("store_spaces").await), (0, 0));
}

#[tokio::test]
#[ignore = "needs Postgres: run ./scripts/test.sh"]
async fn old_runs_are_deleted_in_several_transactions() {
    let server = Refusing::new("old_runs").await;
    let store = server.options().connect(&server.url).await.expect("the server");
    store.migrate().await.expect("tables");
    server
        .run(
            "insert into {s}.runs (id, thread, number, status, ended, body)
            select gen_random_uuid(), 't', n, 'success', n, '' from generate_series(1, 1100) n",
        )
        .await;
    server.refuse("runs", "old.ended = 1100").await;
    store.driver().prune_runs(Duration::ZERO).await.expect_err("a run cannot be deleted");
    assert_eq!(server.count("runs").await, 100);
    server.allow().await;
    assert_eq!(store.driver().prune_runs(Duration::ZERO).await.expect("a prune").runs, 100);
}
