use hier_agents::prelude::*;

#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
struct Filing {
    accepted: bool,
    #[reducer(append)]
    findings: Vec<String>,
}

graph! {
    Review<Filing> = Graph {
        nodes: [fetch, missing, LIMIT],
        edges: [
            START >> fetch >> missing >> LIMIT >> END,
        ],
    }
}

const LIMIT: usize = 3;

async fn fetch() {}

fn main() {
    let _ = Review::compile();
}
