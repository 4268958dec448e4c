//! The laws, on the saver in memory.

use std::sync::Arc;

use hier_core::checkpoint::MemorySaver;
use proptest::prelude::*;

use super::laws::*;

fn holds(law: impl Future<Output = ()>) {
    tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime").block_on(law);
}

fn memory() -> Saver {
    Arc::new(MemorySaver::new())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn run_can_be_stopped_at_any_point(shape in shapes()) {
        holds(stopping_changes_nothing(shape, memory()));
    }

    #[test]
    fn replay_equals_its_run(shape in shapes()) {
        holds(replaying_changes_nothing(shape, memory()));
    }

    #[test]
    fn list_equals_its_stored_parts(turns in turns()) {
        holds(parts_make_the_whole(turns, memory()));
    }
}
