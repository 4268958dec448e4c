use hier_agents::prelude::*;

#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
struct Filing {
    #[state(flatten)]
    base: BaseState,
    artifact: Option<String>,
    #[reducer(append)]
    findings: Vec<String>,
}

struct Books {
    base: BaseContext,
}

impl AsRef<BaseContext> for Books {
    fn as_ref(&self) -> &BaseContext {
        &self.base
    }
}

graph! {
    Worker<Filing, Books> = ReactGraph { system: "You work." }
}

graph! {
    Desk<Filing> = ReactGraph {
        subagents: [Worker {}],
    }
}

fn main() {
    let _ = Desk::compile_as_root();
}
