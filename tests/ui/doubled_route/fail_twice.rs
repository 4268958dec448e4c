//! A run identifies the routes of a node by their names, and each list has each item once.

use hier_agents::prelude::*;

mod m {
    pub(super) fn done(_: &super::Filing) -> bool {
        true
    }
}

#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
struct Filing {
    accepted: bool,
}

graph! {
    Review<Filing> = Graph {
        nodes: [a { goto: [b, b] }, b],
        edges: [
            START >> a >> if done { b } else { END },
            a >> if m::done { END } else { b },
            b >> END,
        ],
        interrupt_before: [b, b],
    }
}

async fn a() {}
async fn b() {}
fn done(state: &Filing) -> bool {
    state.accepted
}

fn main() {}
