use hier_agents::prelude::*;

#[derive(Question, Serialize, Deserialize, JsonSchema)]
#[question(answer = bool, name = "")]
struct Pay;

#[derive(Question, Serialize, Deserialize, JsonSchema)]
#[question(answer = bool, name = "tool_approval")]
struct Pick;

fn main() {}
