use hier_core::agent::AgentBuilder;
use hier_core::prelude::*;

/// Looks something up.
#[tool(step)]
async fn lookup(word: String) -> String {
    word
}

fn main() {
    let _ = AgentBuilder::<BaseState>::new("support").tool(lookup::TOOL);
}
