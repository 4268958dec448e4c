//! The macro knows a managed field by the name of its type.

use hier_agents::prelude::*;
use hier_core::state::{IsLastStep, RemainingSteps as Left};

type Last = IsLastStep;

#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
struct Filing {
    left: Left,
    last: Last,
    title: String,
}

fn main() {
    let _ = Filing::update().title("t");
}
