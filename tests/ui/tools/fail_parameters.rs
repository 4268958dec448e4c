//! Parameters that a model cannot provide and that are not injected.

use hier_agents::prelude::*;
use hier_agents::ToolCallId;

/// Reads a text.
#[tool]
async fn borrows(text: &str) -> String {
    text.to_owned()
}

/// Adds two numbers.
#[tool]
async fn takes_apart((a, b): (u8, u8)) -> String {
    format!("{a}{b}")
}

/// Looks.
#[tool]
async fn misspelt(#[injekt] id: ToolCallId) -> String {
    id.to_string()
}

/// Looks.
#[tool]
async fn twice(#[inject] #[default] limit: u8) -> String {
    limit.to_string()
}

/// Changes the state.
#[tool]
async fn changes(state: &mut String) -> String {
    state.clone()
}

fn main() {}
