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
    fn a_run_may_be_stopped_anywhere(shape in shapes()) {
        holds(stopping_changes_nothing(shape, memory()));
    }

    #[test]
    fn a_replay_is_the_run(shape in shapes()) {
        holds(replaying_changes_nothing(shape, memory()));
    }

    #[test]
    fn a_list_is_the_sum_of_its_parts(turns in turns()) {
        holds(parts_make_the_whole(turns, memory()));
    }
}
