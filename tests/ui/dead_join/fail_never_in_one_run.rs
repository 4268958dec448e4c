use hier_agents::prelude::*;

#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
struct Filing {
    accepted: bool,
    #[reducer(append)]
    findings: Vec<String>,
}

graph! {
    Review<Filing> = Graph {
        nodes: [fetch, assess, archive, notify],
        edges: [
            START >> fetch >> if done { fetch } else if urgent { assess } else { archive },
            [assess, archive] >> notify >> END,
        ],
    }
}

async fn fetch() {}
async fn assess() {}
async fn archive() {}
async fn notify() {}
fn done(state: &Filing) -> bool {
    state.accepted
}

fn urgent(state: &Filing) -> bool {
    state.findings.is_empty()
}

fn main() {}
