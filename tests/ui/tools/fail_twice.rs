use hier_agents::prelude::*;

/// Looks up a year.
#[tool]
#[tool]
async fn look(year: u16) -> String {
    year.to_string()
}

/// Finds a year.
#[tool]
#[hier_agents::prelude::tool]
async fn find(year: u16) -> String {
    year.to_string()
}

graph! {
    Clerk<MessagesState> = Agent { tools: [look, find] }
}

fn main() {
    let _ = Clerk::compile();
}
