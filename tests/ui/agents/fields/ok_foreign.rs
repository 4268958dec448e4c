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
        system: "You decide.",
        answer: verdict,
        options: ModelOptions { temperature: 0.2 },
        tools: [],
    }
}

fn main() {
    let _ = Judge::compile();
}
