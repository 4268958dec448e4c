use hier_agents::prelude::*;

#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
struct Filing {
    accepted: bool,
    count: u32,
}

graph! {
    Review<Filing> = Graph {
        nodes: [fetch, assess, read],
        edges: [
            START >> fetch >> match state.count {
                0 => END,
                1 => [assess, fetch],
                _ => assess,
            },
            assess >> match state.count {
                0 => END,
                n => read(n),
            },
            read >> match state.accepted {
                true => if state.count > 3 { fetch } else { END }
                false => END,
            },
        ],
    }
}

async fn fetch() {}

async fn assess() {}

async fn read(_: Sent<u32>) {}

fn main() {
    let _ = Review::compile();
}
