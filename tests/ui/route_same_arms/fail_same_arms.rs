use hier_agents::prelude::*;

#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
struct Filing {
    accepted: bool,
    #[reducer(append)]
    findings: Vec<String>,
}

graph! {
    Review<Filing> = Graph {
        nodes: [fetch, assess, archive],
        edges: [
            START >> fetch >> match verdict {
                Verdict::Accept => assess,
                Verdict::Redo | Verdict::Reject => [assess],
            },
            assess >> if done { if always { archive } else { archive } } else { END },
            archive >> END,
        ],
    }
}

async fn fetch() {}
async fn assess() {}
async fn archive() {}
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
fn always(state: &Filing) -> bool {
    state.accepted
}

fn main() {
    let _ = Review::compile();
}
