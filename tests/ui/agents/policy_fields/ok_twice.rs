use hier_agents::prelude::*;

#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
struct Filing {
    #[state(flatten)]
    base: BaseState,
    artifact: Option<String>,
    #[reducer(append)]
    findings: Vec<String>,
}

graph! {
    /// Does the work.
    Worker<Filing> = ReactGraph { system: "You work." }
}

graph! {
    Desk<Filing> = ReactGraph {
        subagents: [Worker { merge_fields: [artifact, findings] }],
    }
}

fn main() {
    let _ = Desk::compile_as_root();
}
