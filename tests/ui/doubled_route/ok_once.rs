use hier_agents::prelude::*;

mod m {
    pub(super) fn rejected(_: &super::Filing) -> bool {
        true
    }
}

#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
struct Filing {
    accepted: bool,
}

graph! {
    Review<Filing> = Graph {
        nodes: [a { goto: [b] }, b],
        edges: [
            START >> a >> if done { b } else { END },
            a >> if m::rejected { END } else { b },
            // Closures have no names, so two of them are two routes.
            a >> if (|state: &Filing| state.accepted) { b } else { END },
            a >> if (|state: &Filing| !state.accepted) { b } else { END },
            b >> END,
        ],
        interrupt_before: [b],
    }
}

async fn a() {}
async fn b() {}
fn done(state: &Filing) -> bool {
    state.accepted
}

fn main() {
    let _ = Review::compile();
}
