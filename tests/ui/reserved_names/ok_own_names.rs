use hier_agents::prelude::*;

#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
struct Filing {
    accepted: bool,
}

graph! {
    Review<Filing> = Graph {
        nodes: [_start = a, mine__ = a],
        edges: [START >> _start >> mine__ >> END],
        name: "re view",
    }
}

async fn a() {}

fn main() {
    let _ = Review::compile();
}
