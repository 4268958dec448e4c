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
            START >> [fetch, assess] >> END,
        ],
    }
}

async fn fetch(Sent(_document): Sent<u32>) {}
async fn assess() {}

fn main() {
    let _ = Review::compile();
}
