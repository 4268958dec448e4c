use hier_agents::prelude::*;

#[derive(Question, Serialize, Deserialize, JsonSchema)]
struct Pay {
    amount: u32,
}

#[derive(Question, Serialize, Deserialize, JsonSchema)]
#[question(name = "pick")]
struct Pick;

fn main() {}
