use hier_agents::prelude::*;

#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
struct Filing {
    accepted: bool,
    #[reducer(append)]
    findings: Vec<String>,
}

graph! {
    Review<Filing> = Graph {
        nodes: [fetch, Reader],
        edges: [
            START >> fetch >> Reader >> END,
        ],
    }
}

#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
struct Page {
    accepted: bool,
    words: usize,
}

graph! {
    Reader<Page> = SimpleGraph { compute: read }
}

async fn read() {}
async fn fetch() {}

fn main() {
    let _ = Review::compile();
}
