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
            START >> fetch >> END,
        ],
    }
}

struct Other;

async fn fetch(_state: &Other) {}

fn main() {
    let _ = Review::compile();
}
