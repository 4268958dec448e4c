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
            START >> for document in documents { fetch(document) },
            fetch >> END,
        ],
    }
}

async fn fetch(Sent(_name): Sent<String>) {}

fn documents(state: &Filing) -> Vec<u32> {
    vec![u32::from(state.accepted)]
}

#[derive(Clone)]
struct Page(String);

graph! {
    Pages<Filing> = Graph {
        nodes: [
            read,
        ],
        edges: [
            START >> for text in state.findings { read(Page(text)) },
            read >> END,
        ],
    }
}

async fn read(Sent(_page): Sent<Page>) {}

fn main() {
    let _ = (Review::compile(), Pages::compile());
}
