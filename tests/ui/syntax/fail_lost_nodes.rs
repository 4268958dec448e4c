// After a mistake in a list, no error about the nodes that the list lost follows.

use hier_agents::prelude::*;

#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
struct Filing {
    accepted: bool,
    documents: Vec<String>,
    #[reducer(append)]
    findings: Vec<String>,
}

graph! {
    Inner<Filing> = Graph {
        nodes: [fetch, assess],
        edges: [START >> [fetch, assess >> END]],
    }
}

graph! {
    Twice<Filing> = Graph {
        nodes: [fetch],
        nodes: [assess],
        edges: [START >> fetch >> assess >> END],
    }
}

async fn fetch() {}

async fn assess() {}

fn main() {
    let _ = (Inner::compile(), Twice::compile());
}
