//! A route is a function of the state, or an expression with `state`.

use hier_agents::prelude::*;

#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
struct Filing {
    done: bool,
    docs: Vec<String>,
}

graph! {
    Review<Filing> = Graph {
        nodes: [tick, fetch],
        edges: [
            START >> tick,
            tick >> if !done { tick } else { END },
            tick >> if is_done() { tick } else { END },
            tick >> if let Some(_) = next { tick } else { END },
            tick >> for doc in 1 + 1 { fetch(doc) },
            fetch >> END,
        ],
    }
}

async fn tick() {}
async fn fetch(Sent(_doc): Sent<String>) {}

fn main() {
    let _ = Review::compile();
}
