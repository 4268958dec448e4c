use hier_agents::prelude::*;

/// Lets the user pick a file.
#[tool(client)]
async fn pick_file(kind: String, run: &Run, state: &MessagesState) -> String;

/// Lets the user pick a file.
#[tool(client)]
async fn pick_folder(#[inject] ask: Ask<PickFileCall>, id: hier_agents::ToolCallId) -> String;

fn main() {}
