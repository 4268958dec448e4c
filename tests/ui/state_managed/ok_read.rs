use hier_agents::prelude::*;
use hier_core::state::{IsLastStep, RemainingSteps};

#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
struct Filing {
    remaining_steps: RemainingSteps,
    last: IsLastStep,
    title: String,
}

fn main() {
    let state = Filing::default();
    let _ = (state.remaining_steps.get(), state.last.get(), Filing::update().title("t"));
}
