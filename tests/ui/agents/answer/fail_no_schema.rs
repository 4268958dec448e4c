use hier_agents::prelude::*;

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
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
        answer: verdict,
    }
}

fn main() {
    let _ = Judge::compile();
}
