// A struct is not a node. One error is enough.

use hier_agents::prelude::*;

#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
struct Filing {
    accepted: bool,
}

struct Assess;

graph! {
    Review<Filing> = Graph {
        nodes: [Assess],
        edges: [START >> Assess >> END],
    }
}

fn main() {
    let _ = Review::compile();
}
