use hier_agents::prelude::*;

#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
struct Filing {
    accepted: bool,
}

graph! {
    Assess<Filing> = SimpleGraph { compute: assess }
}

graph! {
    Review<Filing> = Graph {
        nodes: [Assess],
        edges: [START >> Assess >> END],
    }
}

async fn assess() {}

fn main() {
    let _ = Review::compile();
}
