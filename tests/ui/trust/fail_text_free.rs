use hier_agents::prelude::*;

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema, TextFree)]
struct Verdict {
    accepted: bool,
    reason: String,
}

fn main() {}
