use hier_agents::prelude::*;

#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
struct Filing {
    accepted: bool,
    #[reducer(append)]
    findings: Vec<String>,
}

graph! {
    Review<Filing> = Graph {
        nodes: [fetch, assess, wait],
        edges: [
            START >> fetch >> if done { END } else { assess },
            assess >> wait >> if done { END } else { assess },
        ],
    }
}

async fn fetch() {}
async fn assess() {}
async fn wait() {}
fn done(state: &Filing) -> bool {
    state.accepted
}

fn main() {
    let _ = Review::compile();
}
