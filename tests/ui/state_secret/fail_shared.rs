//! A subgraph shows a channel that its outer graph hides.

use hier_agents::prelude::*;

#[derive(State, Clone, Default)]
struct Outer {
    #[channel(secret)]
    token: String,
}

#[derive(State, Clone, Debug, Default)]
struct Inner {
    token: String,
}

async fn work(_: &Inner) {}

graph! { Part<Inner> = Graph { nodes: [work], edges: [START >> work >> END] } }
graph! { Whole<Outer> = Graph { nodes: [part = Part], edges: [START >> part >> END] } }

fn main() {
    let _ = Whole::compile();
}
