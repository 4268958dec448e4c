//! The saver in Postgres keeps the contract, and survives what happens to servers.
//!
//! Needs a server: `scripts/postgres.sh with cargo test -p hier-checkpoint --features postgres`.
#![cfg(feature = "postgres")]

use hier_checkpoint::{Postgres, PostgresOptions};
use hier_core::checkpoint::suite::{self, Report};

/// The server for tests; says so if there is none.
fn server() -> Option<String> {
    let url = std::env::var("HIER_TEST_POSTGRES").ok();
    if url.is_none() {
        println!("SKIPPED: set HIER_TEST_POSTGRES to the URL of a server, or use `scripts/postgres.sh with …`");
    }
    url
}

/// A schema for each case.
async fn report(schema: &str, url: &str, options: PostgresOptions) -> Report {
    let mut report = Report::default();
    for (number, case) in suite::cases().enumerate() {
        let saver = options.clone().schema(format!("{schema}_{number}")).connect(url).await.expect("a server");
        saver.migrate().await.expect("tables");
        report.results.push((case, case.run(saver).await));
    }
    report
}

#[tokio::test(flavor = "multi_thread")]
async fn it_keeps_the_contract() {
    let Some(url) = server() else { return };
    let report = report("plain", &url, Postgres::options()).await;
    assert!(report.passed(), "{report}");
}

#[cfg(all(feature = "compression", feature = "encryption"))]
#[tokio::test(flavor = "multi_thread")]
async fn encrypted_and_compressed_it_keeps_the_contract() {
    let Some(url) = server() else { return };
    let options = Postgres::options().compress().encrypt(&hier_checkpoint::Key::new([7; 32]));
    let report = report("sealed", &url, options).await;
    assert!(report.passed(), "{report}");
}
