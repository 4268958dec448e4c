// The nearest program: the `match` has arms.

use hier_core::prelude::*;

#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
struct Filing {
    pages: u32,
}

graph! {
    Review<Filing> = Graph {
        nodes: [fetch, assess],
        edges: [START >> fetch >> match state.pages { 0 => assess, _ => END }, assess >> END],
    }
}

async fn fetch() {}

async fn assess() {}

fn main() {
    let _ = Review::compile();
}
