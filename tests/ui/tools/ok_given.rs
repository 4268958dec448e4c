use hier_agents::AgentBuilder;
use hier_agents::prelude::*;

/// Looks something up.
#[tool(step)]
async fn lookup(word: String) -> String {
    word
}

fn main() {
    let _ = AgentBuilder::<BaseState>::new("support").tool(lookup::TOOL);
}
