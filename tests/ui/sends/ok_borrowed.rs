// The nearest program: the node is sent a clone.

use hier_core::prelude::*;

#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
struct Filing {
    #[reducer(append)]
    findings: Vec<String>,
}

graph! {
    Review<Filing> = Graph {
        nodes: [read],
        edges: [
            START >> for text in &state.findings { read(text.clone()) },
            read >> END,
        ],
    }
}

async fn read(Sent(_text): Sent<String>) {}

fn main() {
    let _ = Review::compile();
}
