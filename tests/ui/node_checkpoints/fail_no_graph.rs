use hier_agents::prelude::*;

#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
struct Filing {
    accepted: bool,
}

graph! {
    Review<Filing> = Graph {
        nodes: [fetch { checkpoints: per_thread }, Reader],
        edges: [
            START >> fetch >> Reader >> END,
        ],
    }
}

graph! {
    Reader<Filing> = SimpleGraph { compute: read }
}

async fn read() {}
async fn fetch() {}

fn main() {
    let _ = Review::compile();
}
