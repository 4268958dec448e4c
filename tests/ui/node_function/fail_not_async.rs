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

fn fetch() -> hier_core::Result<FilingUpdate> {
    Ok(Filing::update())
}

fn main() {
    let _ = Review::compile();
}
