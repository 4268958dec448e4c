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

async fn fetch() {
    let shared = std::rc::Rc::new(1);
    std::future::ready(()).await;
    drop(shared);
}

fn main() {
    let _ = Review::compile();
}
