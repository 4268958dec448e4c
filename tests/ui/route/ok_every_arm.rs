use hier_agents::prelude::*;

#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
struct Filing {
    accepted: bool,
    #[reducer(append)]
    findings: Vec<String>,
}

graph! {
    Review<Filing> = Graph {
        nodes: [fetch, assess],
        edges: [
            START >> fetch >> assess,
            assess >> match verdict {
                Verdict::Accept => END,
                Verdict::Redo => fetch,
                Verdict::Reject => END,
            },
        ],
    }
}

async fn fetch() {}
async fn assess() {}
enum Verdict {
    Accept,
    Redo,
    Reject,
}

fn verdict(state: &Filing) -> Verdict {
    match state.findings.len() {
        0 => Verdict::Accept,
        1 => Verdict::Redo,
        _ => Verdict::Reject,
    }
}

fn main() {
    let _ = Review::compile();
}
