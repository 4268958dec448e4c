use hier_agents::prelude::*;

#[tool]
async fn look(word: String) -> String {
    word
}

/// Looks it up.
#[tool(description = "")]
async fn empty(word: String) -> String {
    word
}

fn main() {}
