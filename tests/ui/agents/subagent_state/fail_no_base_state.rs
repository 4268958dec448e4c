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
struct Plain {
    artifact: Option<String>,
}

graph! {
    Desk<Plain> = ReactGraph { system: "You run the desk." }
}

fn main() {
    let _ = Desk::compile_as_root();
}
