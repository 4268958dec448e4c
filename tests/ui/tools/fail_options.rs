//! The words of `#[tool(…)]`.

use hier_core::prelude::*;

#[tool(needs_aproval)]
async fn misspelt() -> String {
    String::new()
}

#[tool(name = "two words", timeout = 5, retry = 0)]
async fn wrong_values() -> String {
    String::new()
}

fn main() {}
