//! The saver in memory keeps the contract, and so does the store of runs.

use std::sync::Arc;

use hier_core::checkpoint::{Checkpointer, MemorySaver};
use hier_core::runs::MemoryRuns;
use hier_testkit::checkpoint as suite;

#[tokio::test]
async fn memory_keeps_the_contract() {
    let report = suite::run(async || Ok(MemorySaver::new())).await;
    assert!(report.passed(), "{report}");
}

/// Graphs hold savers behind an `Arc`.
#[tokio::test]
async fn behind_an_arc_it_is_the_same() {
    let report = suite::run(async || Ok(Arc::new(MemorySaver::new()) as Arc<dyn Checkpointer>)).await;
    assert!(report.passed(), "{report}");
}

#[tokio::test(flavor = "multi_thread")]
async fn runs_in_memory_keep_the_contract() {
    let report = hier_testkit::runs::run(async || Ok(MemoryRuns::new())).await;
    assert!(report.passed(), "{report}");
}

/// It is a saver too.
#[tokio::test]
async fn runs_in_memory_keep_the_contract_of_savers() {
    let report = suite::run(async || Ok(MemoryRuns::new())).await;
    assert!(report.passed(), "{report}");
}
