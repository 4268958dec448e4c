//! A tool is an async function without parameters of types.

use hier_agents::prelude::*;

/// Waits.
#[tool]
fn waits_for_nobody() -> String {
    String::new()
}

/// Writes a value.
#[tool]
async fn any<T: ToString>(value: T) -> String {
    value.to_string()
}

#[tool]
struct NoFunction;

fn main() {}
