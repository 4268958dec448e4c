//! The batch under a scheduler that tries many interleavings: the source of the engine itself, with locks, threads and a
//! runtime of `shuttle`.

mod cases;
#[allow(dead_code, unused_imports)] // the engine uses more of it than the tests do
mod pool {
    #[path = "../../../src/engine/pool/batch.rs"]
    pub(crate) mod batch;
    pub(crate) mod runtime;
    pub(crate) mod watch;
}
mod sync;
