use hier_agents::prelude::*;

#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
struct Filing {
    accepted: bool,
    #[reducer(append)]
    findings: Vec<String>,
}

graph! {
    Review<Filing> = Graph {
        nodes: [fetch, again = fetch, fetch],
        edges: [
            START >> fetch >> again >> END,
        ],
    }
}

async fn fetch() {}

fn main() {
    let _ = Review::compile();
}
