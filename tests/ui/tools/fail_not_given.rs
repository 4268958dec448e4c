//! A builder takes tools, not functions: the `TOOL` of a function with `#[tool]`.

use hier_agents::AgentBuilder;
use hier_agents::prelude::*;

/// Looks something up.
#[tool]
async fn lookup(word: String) -> String {
    word
}

/// Has no `#[tool]`.
async fn forgotten(word: String) -> String {
    word
}

fn main() {
    let _ = AgentBuilder::<BaseState>::new("support").tool(lookup);
    let _ = AgentBuilder::<BaseState>::new("support").tool(forgotten);
}
