//! Wrong fields and types are reported at their place. A channel alone is not a function. The compiler does not
//! suggest items of the generated code.

use hier_agents::prelude::*;

#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
struct Filing {
    count: u32,
    finished: bool,
    docs: Vec<String>,
}

graph! {
    Fields<Filing> = Graph {
        nodes: [tick, fetch],
        edges: [
            START >> tick,
            tick >> if state.counts == 0 { tick } else { END },
            tick >> if state.count { tick } else { END },
            tick >> for doc in &state.docs { fetch(doc) },
            fetch >> END,
        ],
    }
}

graph! {
    Channels<Filing> = Graph {
        nodes: [tick, fetch],
        edges: [
            START >> tick >> if finished { tick } else { END },
            tick >> for doc in docs { fetch(doc) },
            fetch >> END,
        ],
    }
}

async fn tick() {}
async fn fetch(Sent(_doc): Sent<String>) {}

fn main() {
    let _ = (Fields::compile(), Channels::compile());
}
