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
        options: ModelOptions { temprature: 0.2, seed: 1, seed: 2 },
        model: "gpt-4o",
        attempts: 0,
    }
}

graph! {
    Second<Claim> = Agent {
        options: { temperature: 0.2 },
    }
}

fn main() {
    let _ = (Judge::compile(), Second::compile());
}
