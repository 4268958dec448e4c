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

async fn fetch(_a: &Filing, _b: &Filing, _c: &Filing, _d: &Filing, _e: &Filing) {}

fn main() {
    let _ = Review::compile();
}
