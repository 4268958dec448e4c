use hier_agents::prelude::*;
use hier_agents::Effort;

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
        options: ModelOptions { temperature: 0.2, reasoning: Effort::Low, seed: 1, stop: ["END"] },
        attempts: 1,
    }
}

fn main() {
    let _ = Judge::compile();
}
