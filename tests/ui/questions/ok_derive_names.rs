use hier_agents::prelude::*;

#[derive(Question, Serialize, Deserialize, JsonSchema)]
#[question(answer = bool, name = "payment")]
struct Pay;

#[derive(Question, Serialize, Deserialize, JsonSchema)]
#[question(answer = bool, name = "tool approval")]
struct Pick;

fn main() {}
