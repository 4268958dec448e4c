//! The batch, and the log of a run, under a scheduler that tries many interleavings: the source of the engine itself, with
//! locks, threads and a runtime of `shuttle`.

mod cases;
mod checkpoint {
    pub(crate) use hier_core::checkpoint::*;
}
mod config {
    pub(crate) use hier_core::Durability;
}
#[allow(dead_code)] // the engine uses more of it than the tests do
mod log {
    mod cases;
    #[path = "../../../src/engine/log/committer.rs"]
    mod committer;
    #[path = "../../../src/engine/log/deferred.rs"]
    mod deferred;
    mod runtime;
    mod saver;
    #[path = "../../../src/engine/log/signal_inbox.rs"]
    mod signal_inbox;
}
#[allow(dead_code, unused_imports)] // the engine uses more of it than the tests do
mod pool {
    #[path = "../../../src/engine/pool/batch.rs"]
    pub(crate) mod batch;
    pub(crate) mod runtime;
    pub(crate) mod watch;
}
mod sync;
