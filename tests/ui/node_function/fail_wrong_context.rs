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

struct Desk;

async fn fetch(_run: &Run<Desk>) {}

fn main() {
    let _ = Review::compile();
}
