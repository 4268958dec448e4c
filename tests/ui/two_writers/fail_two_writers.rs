use hier_agents::prelude::*;

#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
struct Filing {
    accepted: bool,
    #[reducer(append)]
    findings: Vec<String>,
}

graph! {
    Review<Filing> = Graph {
        nodes: [fetch, assess { writes: [accepted] }, archive { writes: [findings, accepted] }],
        edges: [
            START >> fetch >> [assess, archive] >> END,
        ],
    }
}

async fn fetch() {}
async fn assess() {}
async fn archive() {}

fn main() {
    let _ = Review::compile();
}
