use hier_agents::prelude::*;

#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
struct Filing {
    accepted: bool,
    #[reducer(append)]
    findings: Vec<String>,
}

graph! {
    Review<Filing> = Graph {
        nodes: [fetch, assess],
        edges: [
            START >> for document in documents { [fetch(document), assess(document)] },
            fetch >> assess >> END,
        ],
    }
}

async fn fetch(Sent(_document): Sent<u32>) {}
async fn assess(_document: Option<Sent<u32>>, _state: &Filing) {}

fn documents(state: &Filing) -> Vec<u32> {
    vec![u32::from(state.accepted)]
}

fn main() {
    let _ = Review::compile();
}
