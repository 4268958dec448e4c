use hier_agents::prelude::*;

#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
struct Filing {
    accepted: bool,
    #[reducer(append)]
    findings: Vec<String>,
}

graph! {
    Review<Filing> = Graph {
        nodes: [fetch, assess { writes: [accepted] }, archive { writes: [accepted] }],
        edges: [
            START >> fetch >> if done { archive } else { assess },
            assess >> END,
            archive >> END,
        ],
    }
}

async fn fetch() {}
async fn assess() {}
async fn archive() {}
fn done(state: &Filing) -> bool {
    state.accepted
}

fn main() {
    let _ = Review::compile();
}
