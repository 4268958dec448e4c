use hier_agents::prelude::*;

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
struct Picked {
    name: String,
}

/// Lets the user pick a file.
#[tool(client)]
async fn pick_file(kind: String) -> hier_core::Result<Picked>;

fn main() {}
