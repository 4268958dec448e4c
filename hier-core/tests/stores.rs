//! The store in memory keeps the contract, and the suite notices stores that do not.

use hier_core::store::{BoxFuture, MemoryStore, Op, OpResult, Store, StoreError, suite};

#[tokio::test]
async fn the_store_in_memory_keeps_the_contract() {
    let report = suite::run(async |options| Ok(MemoryStore::new(options))).await;
    assert!(report.passed(), "{report}");
    assert!(report.results.len() > 50, "{report}");
}

/// Loses every third put.
struct Forgetful(MemoryStore, std::sync::atomic::AtomicUsize);

impl Store for Forgetful {
    fn batch<'a>(&'a self, mut ops: Vec<Op>) -> BoxFuture<'a, Result<Vec<OpResult>, StoreError>> {
        for op in &mut ops {
            if let Op::Put { value, .. } = op
                && self.1.fetch_add(1, std::sync::atomic::Ordering::Relaxed) % 3 == 2
            {
                *value = None;
            }
        }
        self.0.batch(ops)
    }

    fn sweep<'a>(&'a self) -> BoxFuture<'a, Result<u64, StoreError>> {
        self.0.sweep()
    }
}

#[tokio::test]
async fn a_store_that_forgets_is_found_out() {
    let new = async |options| Ok(Forgetful(MemoryStore::new(options), 0.into()));
    let report = suite::run(new).await;
    assert!(!report.passed());
    let failed = report.results.iter().filter(|(_, result)| result.is_err()).count();
    assert!(failed > 10, "{report}");
}
