use hier_agents::prelude::*;

/// Finds tools for a garden.
#[tool(name = "search_garden_tools")]
async fn search_tools(garden: String) -> String {
    format!("a spade for {garden}")
}

mod other {
    use hier_agents::prelude::*;

    /// Finds tools for a garden.
    #[tool]
    pub async fn search_tools(garden: String) -> String {
        format!("a spade for {garden}")
    }
}

graph! {
    Desk<BaseState> = Agent { tools: [search_tools], search: true }
}

graph! {
    Off<BaseState> = Agent { tools: [other::search_tools], search: false }
}

graph! {
    Without<BaseState> = Agent { tools: [other::search_tools] }
}

fn main() {
    let _ = (Desk::compile(), Off::compile(), Without::compile());
}
