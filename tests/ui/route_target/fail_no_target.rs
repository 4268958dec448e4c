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
            START >> fetch >> assess >> match verdict {
                Verdict::Accept => END,
                Verdict::Redo => fetch::again,
                Verdict::Reject => "fetch",
            },
            fetch >> if done { assess } else { START },
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
fn done(state: &Filing) -> bool {
    state.accepted
}

fn main() {
    let _ = Review::compile();
}
