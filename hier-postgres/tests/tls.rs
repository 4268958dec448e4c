//! Connections to a server that wants them encrypted.
//!
//! Needs Postgres: `scripts/postgres.sh test -p hier-postgres`.
#![cfg(feature = "tls")]

mod kit;

use hier_core::checkpoint::{Checkpointer, Claim, ListQuery, SaverError};
use hier_core::store::{StoreExt, StoreOptions};
use hier_postgres::{Postgres, PostgresStore};
use kit::server::{Server, server};
use serde_json::json;
use tokio_postgres::NoTls;

/// Returns the permanent error of the URL or the server.
async fn refused(url: &str) -> String {
    match Postgres::connect(url).await.expect_err(url) {
        SaverError::Unusable { place, reason } => {
            assert!(place.starts_with("Postgres `postgres` at "), "{place}");
            reason
        }
        other => panic!("{url}: {other:?}"),
    }
}

async fn works(url: &str) {
    let saver = Postgres::connect(url).await.expect(url);
    saver.migrate().await.expect("tables");
    let lease = saver.acquire("t", Claim::default()).await.expect("the thread");
    let (_, record) = kit::next(None, &[(0, false, b"value".to_vec())], 1);
    saver.commit(&lease, vec![record].into()).await.expect("a commit");
    assert_eq!(saver.list(ListQuery::thread("t")).await.expect("a list").len(), 1);
    saver.release(&lease).await.expect("the end");
    saver.delete_thread("t").await.expect("no more of it");
    let store = PostgresStore::connect_with(url, Postgres::options(), StoreOptions::default()).await.expect(url);
    store.migrate().await.expect("tables");
    store.put(["desk"], "key", &json!({"a": 1})).await.expect("an item");
}

/// With a user that has a password.
async fn encrypted() -> (Server, String) {
    let server = Server::start();
    let (client, connection) = tokio_postgres::connect(&server.url, NoTls).await.expect("the server");
    let connection = tokio::spawn(connection);
    client.batch_execute("create role desk superuser login password 'sesame'").await.expect("a user");
    drop(client);
    connection.await.expect("no panic").expect("an end");
    let root = server.encrypt();
    (server, root)
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Postgres: run ./scripts/test.sh"]
async fn sslmode_require_encrypts_connections() {
    let (server, root) = encrypted().await;
    let Server { url, .. } = &server;
    // The server lets nothing else in.
    let reason = refused(url).await;
    assert!(reason.contains("add `sslmode=require` to the URL"), "{reason}");
    for mode in ["require", "verify-ca", "verify-full"] {
        works(&format!("{url}?sslmode={mode}&sslrootcert={root}")).await;
    }
    let with_password = url.replace("hier@", "desk:sesame@");
    works(&format!("{with_password}?sslmode=require&sslrootcert={root}&channel_binding=require")).await;
    let wrong = refused(&format!("{}?sslmode=require&sslrootcert={root}", url.replace("hier@", "desk:wrong@"))).await;
    assert!(wrong.contains("the user or the password"), "{wrong}");
    // After a crash of the server connections are made anew.
    let saver = Postgres::connect(&format!("{url}?sslmode=require&sslrootcert={root}")).await.expect("the server");
    server.crash();
    let list = tokio::spawn(async move { saver.list(ListQuery::thread("t")).await });
    server.start_again();
    assert_eq!(list.await.expect("no panic").expect("a list"), []);
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Postgres: run ./scripts/test.sh"]
async fn server_with_an_invalid_certificate_is_refused() {
    let (server, root) = encrypted().await;
    let url = &server.url;
    let unknown = refused(&format!("{url}?sslmode=require")).await;
    assert!(unknown.contains("rejects the certificate") && unknown.contains("sslrootcert=FILE"), "{unknown}");
    let of_another = url.replace("127.0.0.1", "desk.example");
    let other = refused(&format!("{of_another}?hostaddr=127.0.0.1&sslmode=require&sslrootcert={root}")).await;
    assert!(other.contains("desk.example") && other.contains("the host as the certificate does"), "{other}");
    for (file, said) in [("/no/such/file.pem", "/no/such/file.pem"), (file!(), "it contains no certificate")] {
        let path =
            if file == file!() { format!("{}/tests/tls.rs", env!("CARGO_MANIFEST_DIR")) } else { file.to_owned() };
        let reason = refused(&format!("{url}?sslmode=require&sslrootcert={path}")).await;
        assert!(reason.contains("sslrootcert") && reason.contains(said), "{reason}");
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Postgres: run ./scripts/test.sh"]
async fn unencrypted_server_is_refused_with_sslmode_require() {
    let url = server();
    let reason = refused(&format!("{url}?sslmode=require")).await;
    assert!(
        reason.contains("does not support encryption: set `ssl = on` in `postgresql.conf`, or remove `sslmode`"),
        "{reason}"
    );
}
