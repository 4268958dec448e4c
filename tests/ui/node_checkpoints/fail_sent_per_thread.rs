use hier_agents::prelude::*;

#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
struct Filing {
    accepted: bool,
}

graph! {
    Review<Filing> = Graph {
        nodes: [fetch, keeps = Reader { checkpoints: per_thread }],
        edges: [
            START >> fetch >> for filing in filings { keeps(filing) },
            keeps >> END,
        ],
    }
}

graph! {
    Reader<Filing> = SimpleGraph { compute: read }
}

fn filings(_: &Filing) -> Vec<Filing> {
    vec![Filing::default()]
}

async fn read() {}
async fn fetch() {}

fn main() {
    let _ = Review::compile();
}
