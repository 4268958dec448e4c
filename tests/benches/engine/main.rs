//! The cost of running a graph: `cargo bench --package hier-tests --bench engine`.
//!
//! Each figure is next to its floor, or to the same work with another size, in one run.

mod fan_out;
mod looping;
mod parallel;
mod wide;

use criterion::{criterion_group, criterion_main};
use tokio::runtime::Runtime;

/// A runtime with two workers, whatever the machine has.
fn runtime() -> Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("a runtime")
}

criterion_group!(benches, looping::benches, fan_out::benches, parallel::benches, wide::benches);
criterion_main!(benches);
