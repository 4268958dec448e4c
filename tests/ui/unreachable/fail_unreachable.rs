use hier_agents::prelude::*;

#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
struct Filing {
    accepted: bool,
    #[reducer(append)]
    findings: Vec<String>,
}

graph! {
    Review<Filing> = Graph {
        nodes: [fetch, assess, archive],
        edges: [
            START >> fetch >> assess >> END,
            archive >> END,
        ],
    }
}

async fn fetch() {}
async fn assess() {}
async fn archive() {}

fn main() {
    let _ = Review::compile();
}
