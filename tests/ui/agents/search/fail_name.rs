use hier_agents::prelude::*;

/// Finds tools for a garden.
#[tool]
async fn search_tools(garden: String) -> String {
    format!("a spade for {garden}")
}

graph! {
    Desk<BaseState> = Agent { tools: [search_tools], search: true }
}

fn main() {
    let _ = Desk::compile();
}
