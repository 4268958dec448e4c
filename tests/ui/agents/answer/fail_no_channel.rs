use hier_agents::prelude::*;

#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
struct Verdict {
    accepted: bool,
}

#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
struct Claim {
    #[state(flatten)]
    base: BaseState,
    verdict: Option<Verdict>,
    #[reducer(append)]
    verdicts: Vec<Verdict>,
}

graph! {
    Judge<Claim> = Agent {
        answer: verdct,
    }
}

fn main() {
    let _ = Judge::compile();
}
