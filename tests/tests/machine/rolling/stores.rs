//! The sequences in each store of runs.

use super::*;

fn sequences(default_cases: u32, store: impl AsyncFn() -> Arc<dyn RunStore>) {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("a runtime");
    let store = runtime.block_on(store());
    let durability = prop_oneof![Just(Durability::Sync), Just(Durability::Async), Just(Durability::Exit)];
    let input = (durability, proptest::collection::vec(operation(), 1..16));
    // A sequence takes long: its nodes wait.
    crate::check((default_cases, 20), &input, |(durability, operations)| {
        let case = async { Rolled::new(&store, durability).await?.all(&operations).await };
        runtime.block_on(case)
    });
}

#[test]
fn runs_in_memory() {
    sequences(60, async || Arc::new(MemoryRuns::new()) as Arc<dyn RunStore>);
}

#[test]
fn runs_in_sqlite() {
    let folder = tempfile::tempdir().expect("a folder");
    sequences(20, async || {
        Arc::new(Sqlite::open(folder.path().join("runs.db")).await.expect("a file")) as Arc<dyn RunStore>
    });
}

#[test]
#[ignore = "needs Postgres: run ./scripts/test.sh"]
fn runs_in_postgres() {
    let url = crate::postgres_url();
    sequences(10, async || {
        let options = Postgres::options().schema(format!("rolling_{}", std::process::id()));
        let store = options.connect(&url).await.expect("the server answers");
        store.migrate().await.expect("the tables are made");
        Arc::new(store) as Arc<dyn RunStore>
    });
}
