//! The stores in SQLite and Postgres keep the contract.
//!
//! Postgres needs a server: `scripts/postgres.sh test -p hier-postgres`.

mod kit;

use std::path::Path;

use hier_core::checkpoint::{Checkpointer, Claim, SaverError};
use hier_core::store::{Search, StoreError, StoreExt};
use hier_sqlite::{Sqlite, SqliteOptions, SqliteStore};
use hier_testkit::store::{self as suite, Report};
use serde_json::json;

async fn report(sqlite: SqliteOptions) -> Report {
    let folder = tempfile::tempdir().expect("a folder");
    let mut report = Report::default();
    for (number, case) in suite::cases().enumerate() {
        let path = folder.path().join(format!("{number}.db"));
        let options = case.options().expect("options");
        let store = SqliteStore::open_with(path, sqlite.clone(), options).await.expect("a new file");
        report.results.push((case, case.run(store).await));
    }
    report
}

#[tokio::test(flavor = "multi_thread")]
async fn file_keeps_the_contract() {
    let report = report(Sqlite::options()).await;
    assert!(report.passed(), "{report}");
}

#[cfg(all(feature = "compression", feature = "encryption"))]
#[tokio::test(flavor = "multi_thread")]
async fn encrypted_and_compressed_file_keeps_the_contract() {
    let report = report(Sqlite::options().compress().encrypt(&hier_postgres::Key::new([7; 32]))).await;
    assert!(report.passed(), "{report}");
}

#[tokio::test(flavor = "multi_thread")]
async fn file_can_have_both_a_store_and_checkpoints() {
    let folder = tempfile::tempdir().expect("a folder");
    for (number, store_first) in [true, false].into_iter().enumerate() {
        let path = folder.path().join(format!("{number}.db"));
        if store_first {
            SqliteStore::open(&path).await.expect("a new file");
        }
        let saver = Sqlite::open(&path).await.expect("the file");
        let store = SqliteStore::open(&path).await.expect("the file");
        store.put(["a"], "k", &json!({ "n": 1 })).await.expect("a put");
        saver.acquire("t", Claim::default()).await.expect("a claim");
        drop((saver, store));
        let (again, store) =
            (Sqlite::open(&path).await.expect("the file"), SqliteStore::open(&path).await.expect("it"));
        assert!(store.get(["a"], "k").await.expect("a read").is_some());
        again.check().await.expect("a whole file");
    }
}

async fn refused(path: &Path) -> String {
    match SqliteStore::open(path).await {
        Err(StoreError::Saver(error @ SaverError::Unusable { .. })) => error.to_string(),
        other => panic!("{other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn foreign_newer_and_broken_files_are_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name);
    std::fs::write(path("text"), "no database, but long enough to be none".repeat(100)).expect("a file");
    assert!(refused(&path("text")).await.contains("not a SQLite database"));
    let foreign = rusqlite::Connection::open(path("foreign")).expect("a file");
    foreign.execute_batch("create table other (x)").expect("a table");
    assert!(refused(&path("foreign")).await.contains("another program"));
    SqliteStore::open(path("newer")).await.expect("a file");
    let newer = rusqlite::Connection::open(path("newer")).expect("the file");
    newer.execute_batch("update store_version set version = 99").expect("a version");
    assert!(refused(&path("newer")).await.contains("newer version"));
    assert!(refused(folder.path()).await.contains("folder"));
    assert!(refused(&path("no/such/folder")).await.contains("folder exists"));
}

#[tokio::test(flavor = "multi_thread")]
async fn items_survive_reopening_the_file() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("desk.db");
    SqliteStore::open(&path).await.expect("a file").put(["a"], "k", &json!({ "n": 1.5 })).await.expect("a put");
    let item = SqliteStore::open(&path).await.expect("it").get(["a"], "k").await.expect("a read").expect("the item");
    assert_eq!(item.value["n"], 1.5);
}

#[cfg(feature = "encryption")]
#[tokio::test(flavor = "multi_thread")]
async fn moved_or_plain_items_are_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("desk.db");
    let options = || Sqlite::options().encrypt(&hier_postgres::Key::new([7; 32]));
    let store =
        SqliteStore::open_with(&path, options(), hier_core::store::StoreOptions::default()).await.expect("a file");
    store.put(["ada"], "k", &json!({ "secret": "figs" })).await.expect("a put");
    store.put(["bob"], "k", &json!({ "secret": "nuts" })).await.expect("a put");
    for file in std::fs::read_dir(folder.path()).expect("the folder") {
        let bytes = std::fs::read(file.expect("a file").path()).expect("its bytes");
        assert!(!bytes.windows(4).any(|bytes| bytes == b"figs"));
    }
    let plain = SqliteStore::open(&path).await.expect("the file").get(["ada"], "k").await;
    assert!(plain.expect_err("no key").to_string().contains("open the store with its key"));
    let file = rusqlite::Connection::open(&path).expect("the file");
    let moved = "update store_items set value = (select value from store_items where space = 2) where space = 1";
    assert_eq!(file.execute(moved, []).expect("a change"), 1);
    let error = store.get(["ada"], "k").await.expect_err("a moved value");
    assert!(error.to_string().contains("moved from another place"), "{error}");
    store.get(["bob"], "k").await.expect("an untouched value").expect("the item");
    let both = SqliteStore::open(&path).await.expect("the file");
    both.put(["ada"], "k", &json!({ "plain": 1 })).await.expect("a put");
    let error = store.get(["ada"], "k").await.expect_err("a plain value");
    assert!(error.to_string().contains("is not encrypted"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn concurrent_writers_wait_for_each_other() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("desk.db");
    let mut running = tokio::task::JoinSet::new();
    for writer in 0..4 {
        // Each opens the new file by itself, as processes would.
        let path = path.clone();
        running.spawn(async move {
            let store = SqliteStore::open(path).await?;
            for number in 0..25 {
                store.put(["all"], format!("{writer}-{number}"), &json!({})).await?;
            }
            Ok::<_, StoreError>(())
        });
    }
    while let Some(ended) = running.join_next().await {
        ended.expect("no panic").expect("no error");
    }
    let store = SqliteStore::open(&path).await.expect("the file");
    assert_eq!(store.search(Search::below(["all"]).limit(1_000)).await.expect("a search").len(), 100);
}

mod postgres {
    use hier_postgres::{Postgres, PostgresOptions, PostgresStore};

    use super::*;
    use crate::kit::server::server;

    async fn report(schema: &str, url: &str, postgres: PostgresOptions) -> Report {
        let mut report = Report::default();
        for (number, case) in suite::cases().enumerate() {
            let postgres = postgres.clone().schema(format!("{schema}_{number}"));
            let options = case.options().expect("options");
            let store = PostgresStore::connect_with(url, postgres, options).await.expect("a server");
            store.migrate().await.expect("tables");
            report.results.push((case, case.run(store).await));
        }
        report
    }

    #[tokio::test(flavor = "multi_thread")]
    #[ignore = "needs Postgres: run ./scripts/test.sh"]
    async fn backend_keeps_the_contract() {
        let url = server();
        let report = report("store_plain", &url, Postgres::options()).await;
        assert!(report.passed(), "{report}");
    }

    #[cfg(all(feature = "compression", feature = "encryption"))]
    #[tokio::test(flavor = "multi_thread")]
    #[ignore = "needs Postgres: run ./scripts/test.sh"]
    async fn encrypted_and_compressed_backend_keeps_the_contract() {
        let url = server();
        let postgres = Postgres::options().compress().encrypt(&hier_postgres::Key::new([7; 32]));
        let report = report("store_sealed", &url, postgres).await;
        assert!(report.passed(), "{report}");
    }

    #[tokio::test(flavor = "multi_thread")]
    #[ignore = "needs Postgres: run ./scripts/test.sh"]
    async fn store_tables_are_created_next_to_the_savers() {
        let url = server();
        let options = || Postgres::options().schema("store_made_once");
        let connect = || PostgresStore::connect_with(&url, options(), hier_core::store::StoreOptions::default());
        let store = connect().await.expect("the server");
        let error = store.get(["a"], "k").await.expect_err("no tables");
        assert!(error.to_string().contains("call `PostgresStore::migrate`"), "{error}");
        let saver = options().connect(&url).await.expect("the server");
        let mut together = tokio::task::JoinSet::new();
        for _ in 0..3 {
            let (store, saver) = (connect().await.expect("the server"), saver.clone());
            together.spawn(async move { store.migrate().await });
            together.spawn(async move { Ok(saver.migrate().await?) });
        }
        while let Some(ended) = together.join_next().await {
            ended.expect("no panic").expect("tables");
        }
        store.put(["a"], "k", &json!({ "n": 1 })).await.expect("a put");
        saver.acquire("t", Claim::default()).await.expect("a claim");
        let (client, connection) = tokio_postgres::connect(&url, tokio_postgres::NoTls).await.expect("the server");
        tokio::spawn(connection);
        client.batch_execute("update store_made_once.store_version set version = 99").await.expect("a newer version");
        let error = connect().await.expect("the server").migrate().await.expect_err("a newer version");
        assert!(error.to_string().contains("newer version"), "{error}");
    }

    #[tokio::test(flavor = "multi_thread")]
    #[ignore = "needs Postgres: run ./scripts/test.sh"]
    async fn recreated_namespaces_lose_no_items() {
        let url = server();
        let options = Postgres::options().schema("store_come_and_go");
        let store = PostgresStore::connect_with(&url, options, hier_core::store::StoreOptions::default())
            .await
            .expect("the server");
        store.migrate().await.expect("tables");
        let mut running = tokio::task::JoinSet::new();
        for writer in 0..6 {
            let store = store.clone();
            running.spawn(async move {
                for round in 0..40 {
                    let (key, space) = (format!("{writer}"), format!("{}", round % 2));
                    store.put([&space], &key, &json!({ "round": round })).await?;
                    assert!(store.get([&space], &key).await?.is_some(), "the stored item exists");
                    store.delete([&space], &key).await?;
                }
                Ok::<_, StoreError>(())
            });
        }
        while let Some(ended) = running.join_next().await {
            ended.expect("no panic").expect("no error");
        }
        let none: [&str; 0] = [];
        assert!(store.search(Search::below(none)).await.expect("a search").is_empty());
        let (client, connection) = tokio_postgres::connect(&url, tokio_postgres::NoTls).await.expect("the server");
        tokio::spawn(connection);
        let left = client.query_one("select count(*) from store_come_and_go.store_spaces", &[]).await.expect("a count");
        assert_eq!(left.get::<_, i64>(0), 0);
    }
}
