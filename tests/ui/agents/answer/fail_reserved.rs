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

/// Answers.
#[tool]
async fn final_answer() -> String {
    "42".to_owned()
}

/// Answers, too.
#[tool]
async fn finish_task() -> String {
    "42".to_owned()
}

graph! {
    Judge<Claim> = Agent {
        answer: verdict,
        tools: [final_answer],
    }
}

fn main() {
    let _ = Judge::compile();
}
