//! Mistakes in the options of `#[tool(…)]`.

use hier_agents::prelude::*;

/// Looks.
#[tool(needs_aproval)]
async fn misspelt() -> String {
    String::new()
}

/// Looks.
#[tool(name = "two words", timeout = 5, retry = 0)]
async fn wrong_values() -> String {
    String::new()
}

fn main() {}
