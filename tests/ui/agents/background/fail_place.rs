use hier_agents::prelude::*;

#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
struct Filing {
    #[state(flatten)]
    base: BaseState,
    #[reducer(append)]
    findings: Vec<String>,
}

graph! {
    /// Prepares the papers.
    Prepare<Filing> = SimpleGraph { compute: prepare }
}

async fn prepare() {}

graph! {
    /// Does the work.
    Worker<Filing> = Agent { policy: Policy { background: true } }
}

graph! {
    Desk<Filing> = Agent {
        front: [Prepare { background: true }],
        subagents: [Worker],
    }
}

fn main() {
    let _ = Desk::compile_as_root();
}
