//! A loop of three nodes and a route, compared with a loop written by hand; and loops over a small and a large state.

use std::future::Future;
use std::hint::black_box;
use std::pin::Pin;

use criterion::{Criterion, Throughput};
use hier_agents::prelude::*;

const NODE_RUNS: u64 = 10_000;

#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
struct Counter {
    count: u64,
    limit: u64,
}

enum Next {
    Again,
    Done,
}

async fn first(state: &Counter) -> CounterUpdate {
    Counter::update().count(state.count + 1)
}

async fn second(state: &Counter) -> CounterUpdate {
    Counter::update().count(state.count + 1)
}

async fn third(state: &Counter) -> CounterUpdate {
    Counter::update().count(state.count + 1)
}

fn next(state: &Counter) -> Next {
    if state.count < state.limit { Next::Again } else { Next::Done }
}

graph! {
    Loop<Counter> = Graph {
        nodes: [first, second, third],
        edges: [
            START >> first >> second >> third,
            third >> match next { Next::Again => first, Next::Done => END },
        ],
    }
}

/// The floors.
mod by_hand {
    use hier_core::state::{Update, Values};

    use super::{Counter, CounterUpdate, Future, Next, Pin, black_box, first, next, second, third};

    type Node = for<'a> fn(&'a Counter) -> Pin<Box<dyn Future<Output = CounterUpdate> + Send + 'a>>;

    const NODES: [Node; 3] = [|s| Box::pin(first(s)), |s| Box::pin(second(s)), |s| Box::pin(third(s))];

    /// Each node's future is boxed and polled; nothing else.
    pub(super) async fn boxed(limit: u64) -> Counter {
        let (nodes, state) = (NODES, Counter { count: 0, limit });
        for at in (0..nodes.len()).cycle().take(usize::try_from(limit).unwrap_or_default()) {
            let _ = black_box(black_box(&nodes)[at](&state).await);
        }
        state
    }

    /// And the update is applied, the route is matched.
    pub(super) async fn run(limit: u64) -> Counter {
        let nodes = NODES;
        let mut state = Counter { count: 0, limit };
        let mut at = 0;
        loop {
            let update = black_box(&nodes)[at](&state).await;
            for write in update.into_writes() {
                state.reduce(write).expect("a plain write");
            }
            at = match (at, next(&state)) {
                (2, Next::Done) => return state,
                (2, Next::Again) => 0,
                _ => at + 1,
            };
        }
    }
}

/// A state whose bulk no node touches.
#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
struct Bulky {
    bulk: Vec<u8>,
    count: u64,
}

async fn step(state: &Bulky) -> BulkyUpdate {
    Bulky::update().count(state.count + 1)
}

fn more(state: &Bulky) -> bool {
    state.count < 999
}

graph! {
    Steps<Bulky> = Graph {
        nodes: [step],
        edges: [START >> step >> if more { step } else { END }],
    }
}

pub(crate) fn benches(c: &mut Criterion) {
    let runtime = crate::runtime();
    let mut group = c.benchmark_group("loop of 3 nodes, 10,000 node runs");
    group.throughput(Throughput::Elements(NODE_RUNS));
    let graph = Loop::compile();
    let limit = NODE_RUNS - 1;
    group.bench_function("a boxed future", |b| b.to_async(&runtime).iter(|| by_hand::boxed(black_box(NODE_RUNS))));
    group.bench_function("by hand", |b| b.to_async(&runtime).iter(|| by_hand::run(black_box(limit))));
    group.bench_function("hier", |b| {
        b.to_async(&runtime).iter(|| async {
            let config = Config::new().recursion_limit(20_000);
            graph.invoke(Counter { count: 0, limit: black_box(limit) }).config(config).await.expect("the loop ends")
        });
    });
    group.finish();

    let mut group = c.benchmark_group("999 steps");
    let graph = Steps::compile();
    for (name, bytes) in [("tiny state", 0), ("100 KB of state", 100_000)] {
        group.bench_function(name, |b| {
            b.to_async(&runtime).iter(|| async {
                let input = Bulky { bulk: vec![1; bytes], count: 0 };
                graph.invoke(input).await.expect("the loop ends")
            });
        });
    }
    group.finish();
}
