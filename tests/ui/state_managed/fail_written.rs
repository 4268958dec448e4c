//! A managed field cannot be written.

use hier_agents::prelude::*;
use hier_core::state::RemainingSteps;

#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
struct Filing {
    remaining_steps: RemainingSteps,
    title: String,
}

fn main() {
    let _ = Filing::update().title("t").remaining_steps(RemainingSteps::default());
}
