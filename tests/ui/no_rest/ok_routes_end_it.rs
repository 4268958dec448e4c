use hier_agents::prelude::*;

#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
struct Filing {
    accepted: bool,
}

graph! {
    Review<Filing> = Graph {
        nodes: [fetch, assess],
        edges: [
            START >> fetch >> assess,
            assess >> if done { END } else { fetch },
        ],
    }
}

graph! {
    Wait<Filing> = Graph {
        nodes: [wait],
        edges: [START >> wait >> if done { END } else { wait }],
    }
}

graph! {
    Look<Filing> = Graph {
        nodes: [fetch, assess],
        edges: [START >> fetch >> if done { [assess, END] } else { fetch }, assess >> END],
    }
}

async fn fetch() {}
async fn assess() {}
async fn wait() {}
fn done(state: &Filing) -> bool {
    state.accepted
}

fn main() {
    let _ = (Review::compile(), Wait::compile(), Look::compile());
}
