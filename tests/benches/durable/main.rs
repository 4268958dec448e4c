//! The cost of durability: `cargo bench --package hier-tests --bench durable`.
//!
//! Postgres takes part if `HIER_TEST_POSTGRES` names a server (`scripts/postgres.sh` starts one).

mod databases;
mod disk;
mod memory;
mod reading;
mod values;

use criterion::{criterion_group, criterion_main};
use hier_agents::prelude::*;
use tokio::runtime::Runtime;

/// A runtime with two workers, whatever the machine has.
fn runtime() -> Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("a runtime")
}

/// A counter, and something big that does not change.
#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Counter {
    /// The goal of the count.
    pub(crate) goal: u32,
    /// The current count.
    pub(crate) count: u32,
    /// About a hundred bytes that change.
    pub(crate) small: String,
    /// A large value that does not change.
    pub(crate) big: String,
}

graph! {
    /// Counts to the goal: one node, one step a number.
    pub(crate) Tiny<Counter> = Graph {
        nodes: [count],
        edges: [START >> count >> if is_done { END } else { count }],
    }
}

graph! {
    /// The same, and changes a hundred bytes.
    pub(crate) Busy<Counter> = Graph {
        nodes: [count_and_write],
        edges: [START >> count_and_write >> if is_done { END } else { count_and_write }],
    }
}

async fn count(state: &Counter) -> CounterUpdate {
    Counter::update().count(state.count + 1)
}

async fn count_and_write(state: &Counter) -> CounterUpdate {
    Counter::update().count(state.count + 1).small("x".repeat(100))
}

fn is_done(state: &Counter) -> bool {
    state.count >= state.goal
}

criterion_group!(benches, memory::benches, databases::benches, reading::benches, disk::benches, values::benches);
criterion_main!(benches);
