use hier_agents::prelude::*;

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema, TextFree)]
struct Verdict {
    accepted: bool,
    reason: Option<[u8; 4]>,
}

fn main() {}
