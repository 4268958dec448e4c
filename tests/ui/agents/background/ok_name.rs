use hier_agents::prelude::*;

#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
struct Filing {
    #[state(flatten)]
    base: BaseState,
    #[reducer(append)]
    findings: Vec<String>,
}

graph! {
    /// Does the work.
    Worker<Filing> = Agent {}
}

/// Waits.
#[tool]
async fn wait_for_subagents() -> &'static str {
    "waited"
}

graph! {
    Desk<Filing> = Agent {
        tools: [wait_for_subagents],
        subagents: [Worker {}],
    }
}

fn main() {
    let _ = Desk::compile_as_root();
}
