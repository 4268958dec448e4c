//! A join fires once all its sources have run. A loop through it ends only if a route can skip one of them.

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
            START >> [fetch, assess],
            [fetch, assess] >> archive >> [fetch, assess, END],
        ],
    }
}

graph! {
    Retry<Filing> = Graph {
        nodes: [fetch, assess, archive, notify],
        edges: [
            START >> notify >> if done { END } else { [fetch, assess] },
            [fetch, assess] >> archive >> [fetch, assess, END],
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

fn main() {}
