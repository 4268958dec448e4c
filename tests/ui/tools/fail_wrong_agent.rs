//! A tool fits agents whose state has the channels that it reads, and whose context is that of its run.

use hier_agents::{NamedTool, Tool};
use hier_agents::prelude::*;
use hier_core::state::Values;

#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
struct Filing {
    title: String,
}

#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
struct Other {
    title: String,
}

struct Desk;

/// Reads the title.
#[tool]
async fn title(state: &Filing) -> String {
    state.title.clone()
}

/// Beats.
#[tool]
async fn beat(run: &Run<Desk>) -> bool {
    run.heartbeat();
    true
}

fn fits<S: Values, C, T: Tool<S, C>>(_: T) {}

fn main() {
    fits::<Other, (), _>(title::TOOL);
    fits::<Filing, (), _>(beat::TOOL);
}
