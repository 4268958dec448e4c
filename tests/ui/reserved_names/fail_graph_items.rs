//! Every graph has some items, and a node with such a name causes no error where the item is used.

use hier_agents::prelude::*;

#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
struct Build {
    done: bool,
}

async fn compile() {}

graph! {
    Pipeline<Build> = Graph {
        nodes: [compile, SPEC = compile],
        edges: [START >> compile >> SPEC >> END],
    }
}

fn main() {
    let _ = Pipeline::compile();
}
