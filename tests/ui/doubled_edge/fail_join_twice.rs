//! Two joins of the same nodes into the same node always fire together. A repeated chain causes this.

use hier_agents::prelude::*;

#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
struct Filing {
    accepted: bool,
}

graph! {
    Review<Filing> = Graph {
        nodes: [a, b, c],
        edges: [START >> [a, b], [a, b] >> c, [b, a] >> c >> END],
    }
}

async fn a() {}
async fn b() {}
async fn c() {}

fn main() {}
