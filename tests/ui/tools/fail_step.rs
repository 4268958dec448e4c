//! `step` is a word alone, of tools.

use hier_core::prelude::*;

#[tool(steps)]
async fn misspelt() -> String {
    String::new()
}

#[tool(step = true)]
async fn with_a_value() -> String {
    String::new()
}

#[tool(step, step)]
async fn twice() -> String {
    String::new()
}

#[tool(step("charge"))]
async fn named() -> String {
    String::new()
}

fn main() {}
