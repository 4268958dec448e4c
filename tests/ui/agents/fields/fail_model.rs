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

struct Desk {
    base: BaseContext,
    smart: std::sync::Arc<dyn hier_agents::ChatModel>,
}

impl AsRef<BaseContext> for Desk {
    fn as_ref(&self) -> &BaseContext {
        &self.base
    }
}

graph! {
    Judge<Claim, Desk> = Agent {
        model: |desk| &desk.base,
    }
}

fn main() {
    let _ = Judge::compile();
}
