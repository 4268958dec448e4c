use hier_agents::prelude::*;

/// Lets the user pick a file.
#[tool(client, step, retry = 3)]
async fn pick_file(kind: String) -> String;

/// Lets the user pick a file.
#[tool(client)]
fn pick_folder() -> String;

/// Lets the user pick a file.
#[tool(client = true)]
async fn pick_color() -> String;

fn main() {}
