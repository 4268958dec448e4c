//! Names that begin with `__` belong to the engine, and `|`, `:` and `/` separate names.

use hier_agents::prelude::*;

#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
struct Filing {
    accepted: bool,
}

graph! {
    Review<Filing> = Graph {
        nodes: [__start__ = a, __mine = a],
        edges: [START >> __start__ >> __mine >> END],
        name: "re:view",
    }
}

async fn a() {}

fn main() {}
