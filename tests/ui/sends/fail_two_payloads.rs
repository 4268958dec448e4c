use hier_agents::prelude::*;

#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
struct Filing {
    accepted: bool,
    #[reducer(append)]
    findings: Vec<String>,
}

graph! {
    Review<Filing> = Graph {
        nodes: [fetch],
        edges: [
            START >> for document in documents { fetch(document) },
            fetch >> END,
        ],
    }
}

async fn fetch(Sent(_a): Sent<u32>, Sent(_b): Sent<u32>) {}

fn documents(state: &Filing) -> Vec<u32> {
    vec![u32::from(state.accepted)]
}

fn main() {
    let _ = Review::compile();
}
