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
            START >> fetch >> [assess, archive],
            fetch >> assess,
            [assess, archive, assess] >> END,
            assess >> match verdict { Verdict::Accept => [archive, archive], _ => END },
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

fn main() {
    let _ = Review::compile();
}
