use hier_agents::prelude::*;

#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
struct Filing {
    accepted: bool,
    #[reducer(append)]
    findings: Vec<String>,
}

graph! {
    Review<Filing> = Graph {
        nodes: [fetch, assess { goto: [assess, END] }],
        edges: [
            START >> fetch >> assess,
            assess >> if done { END } else { fetch },
        ],
        interrupt_before: [assess],
    }
}

async fn fetch() {}
async fn assess() {}
fn done(state: &Filing) -> bool {
    state.accepted
}

fn main() {
    let _ = Review::compile();
}
