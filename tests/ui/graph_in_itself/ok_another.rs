use hier_agents::prelude::*;

#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
struct Filing {
    accepted: bool,
    #[reducer(append)]
    findings: Vec<String>,
}

graph! {
    Review<Filing> = Graph {
        nodes: [fetch, Other],
        edges: [
            START >> fetch >> Other >> END,
        ],
    }
}

graph! {
    Other<Filing> = Graph {
        nodes: [fetch],
        edges: [START >> fetch >> END],
    }
}

async fn fetch() {}

fn main() {
    let _ = Review::compile();
}
