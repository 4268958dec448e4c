use hier_agents::prelude::*;

#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
struct Filing {
    accepted: bool,
}

graph! {
    Review<Filing> = Graph {
        nodes: [
            fetch { retry: 2 },
            keeps = Reader { checkpoints: per_thread },
            fresh = Reader { checkpoints: per_call, timeout: 5s },
            light = Reader { checkpoints: none },
        ],
        edges: [
            START >> fetch >> keeps >> fresh >> light >> END,
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
