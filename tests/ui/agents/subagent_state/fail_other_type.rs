use hier_agents::prelude::*;

#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
struct Filing {
    #[state(flatten)]
    base: BaseState,
    artifact: Option<String>,
    #[reducer(append)]
    findings: Vec<String>,
}

#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
struct Page {
    #[state(flatten)]
    base: BaseState,
    artifact: u64,
    words: usize,
}

graph! {
    Worker<Page> = ReactGraph { system: "You work." }
}

graph! {
    Desk<Filing> = ReactGraph {
        subagents: [Worker { merge_fields: [artifact] }],
    }
}

fn main() {
    let _ = Desk::compile_as_root();
}
