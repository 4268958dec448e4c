//! A graph's state needs `#[derive(State)]`.

use hier_agents::prelude::*;

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct Filing {
    accepted: bool,
}

graph! {
    Review<Filing> = Graph {
        nodes: [assess],
        edges: [START >> assess >> END],
    }
}

async fn assess(state: &Filing) {
    let _ = state.accepted;
}

fn main() {
    let _ = Review::compile();
}
