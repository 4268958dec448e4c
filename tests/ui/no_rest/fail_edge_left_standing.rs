//! A plain edge is always followed, so a loop of them never ends: the usual mistake is a leftover edge next to its
//! route.

use hier_agents::prelude::*;

#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
struct Filing {
    accepted: bool,
}

graph! {
    Review<Filing> = Graph {
        nodes: [fetch, assess],
        edges: [
            START >> fetch >> assess >> fetch,
            assess >> if done { END } else { fetch },
        ],
    }
}

graph! {
    Wait<Filing> = Graph {
        nodes: [wait],
        edges: [START >> wait >> wait, wait >> END],
    }
}

graph! {
    Look<Filing> = Graph {
        nodes: [fetch, assess],
        edges: [START >> fetch >> if done { [assess, END] } else { fetch }, assess >> fetch],
    }
}

async fn fetch() {}
async fn assess() {}
async fn wait() {}
fn done(state: &Filing) -> bool {
    state.accepted
}

fn main() {}
