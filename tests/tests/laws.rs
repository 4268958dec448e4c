//! The laws of durable threads, on SQLite: plain, compressed, encrypted.

#[path = "../../hier-core/tests/durable/laws.rs"]
mod laws;

use std::sync::Arc;

use hier_sqlite::Key;
use hier_sqlite::Sqlite;
use laws::*;
use proptest::prelude::*;

/// Checks a law with a plain, a compressed and an encrypted file.
fn holds<Law: Future<Output = ()>>(law: impl Fn(Saver) -> Law) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let key = Key::new([7; 32]);
        let ways = [Sqlite::options(), Sqlite::options().compress(), Sqlite::options().compress().encrypt(&key)];
        for options in ways {
            let folder = tempfile::tempdir().expect("a folder");
            let saver = options.open(folder.path().join("threads.db")).await.expect("a file");
            law(Arc::new(saver.clone())).await;
            saver.check().await.expect("the file is whole");
        }
    });
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 6, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn run_can_be_stopped_at_any_point(shape in shapes()) {
        holds(|saver| stopping_changes_nothing(shape.clone(), saver));
    }

    #[test]
    fn replay_equals_its_run(shape in shapes()) {
        holds(|saver| replaying_changes_nothing(shape.clone(), saver));
    }

    #[test]
    fn list_equals_its_stored_parts(turns in turns()) {
        holds(|saver| parts_make_the_whole(turns.clone(), saver));
    }
}
