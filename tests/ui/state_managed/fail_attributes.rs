//! The engine writes a managed field, so it has no attributes about writes.

use hier_agents::prelude::*;
use hier_core::state::{IsLastStep, RemainingSteps};

#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
struct Filing {
    #[reducer(max)]
    remaining_steps: RemainingSteps,
    #[channel(ephemeral)]
    last: IsLastStep,
    title: String,
}

fn main() {
    let _ = Filing::update().title("t");
}
