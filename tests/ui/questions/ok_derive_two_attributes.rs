use hier_agents::prelude::*;

#[derive(Question, Serialize, Deserialize, JsonSchema)]
#[question(answer = bool, name = "payment")]
struct Pay;

fn main() {}
