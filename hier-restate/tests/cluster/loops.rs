//! Graphs that only make supersteps, to measure the cost of a superstep. The figures use them, too.

use hier_core::prelude::*;

/// The number of tasks in a wide step.
pub(crate) const WIDTH: u64 = 8;

#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Count {
    pub(crate) at: u64,
    pub(crate) goal: u64,
}

graph! {
    pub(crate) Loop<Count> = Graph {
        nodes: [tick],
        edges: [START >> tick >> if is_over { END } else { tick }],
    }
}

pub(crate) async fn tick(state: &Count) -> CountUpdate {
    Count::update().at(state.at + 1)
}

pub(crate) fn is_over(state: &Count) -> bool {
    state.at >= state.goal
}

graph! {
    pub(crate) Wide<Count> = Graph {
        nodes: [seed, work, gather = tick],
        edges: [
            START >> seed >> for item in items { work(item) },
            work >> gather >> if is_over { END } else { seed },
        ],
    }
}

pub(crate) async fn seed() {}

async fn work(Sent(_item): Sent<u64>) {}

fn items(_: &Count) -> Vec<u64> {
    (0..WIDTH).collect()
}
