// A `match` that is not written yet. One error is enough.

use hier_core::prelude::*;

#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
struct Filing {
    pages: u32,
}

graph! {
    Review<Filing> = Graph {
        nodes: [fetch, assess],
        edges: [START >> fetch >> match state.pages {}, assess >> END],
    }
}

async fn fetch() {}

async fn assess() {}

fn main() {
    let _ = Review::compile();
}
