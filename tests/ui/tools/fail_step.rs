//! `step` is an option of tools, without a value.

use hier_agents::prelude::*;

/// Looks.
#[tool(steps)]
async fn misspelt() -> String {
    String::new()
}

/// Looks.
#[tool(step = true)]
async fn with_a_value() -> String {
    String::new()
}

/// Looks.
#[tool(step, step)]
async fn twice() -> String {
    String::new()
}

/// Looks.
#[tool(step("charge"))]
async fn named() -> String {
    String::new()
}

fn main() {}
