//! A tool is an async function without type parameters.

use hier_agents::prelude::*;

/// Waits.
#[tool]
fn is_synchronous() -> String {
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
