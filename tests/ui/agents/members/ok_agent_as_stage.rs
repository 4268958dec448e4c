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
    Stage<Filing> = SimpleGraph { compute: normalise }
}

async fn normalise() -> FilingUpdate {
    Filing::update().artifact("x".to_owned())
}

graph! {
    Desk<Filing> = ReactGraph {
        front: [Stage],
        back: [Stage],
    }
}

fn main() {
    let _ = Desk::compile_as_root();
}
