use hier_agents::prelude::*;

#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
struct Filing {
    accepted: bool,
    #[reducer(append)]
    findings: Vec<String>,
}

graph! {
    Review<Filing> = Graph {
        nodes: [fetch, assess { goto: [asess, END] }],
        edges: [
            START >> fetch >> asses,
            fetch >> assess,
            assess >> if done { END } else { fetsh },
        ],
        interrupt_before: [everything],
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
