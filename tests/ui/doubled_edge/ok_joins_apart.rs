use hier_agents::prelude::*;

#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
struct Filing {
    accepted: bool,
}

graph! {
    Review<Filing> = Graph {
        nodes: [a, b, c, d],
        edges: [START >> [a, b], [a, b] >> c, [b, a] >> d >> END, c >> END],
    }
}

async fn a() {}
async fn b() {}
async fn c() {}
async fn d() {}

fn main() {
    let _ = Review::compile();
}
