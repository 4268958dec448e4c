use hier_agents::prelude::*;

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
struct Picked {
    name: String,
}

/// Lets the user pick a file.
#[tool]
async fn pick_file(kind: String) -> Picked;

fn main() {}
