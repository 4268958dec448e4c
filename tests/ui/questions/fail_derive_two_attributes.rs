use hier_agents::prelude::*;

#[derive(Question, Serialize, Deserialize, JsonSchema)]
#[question(answer = bool)]
#[question(name = "payment")]
struct Pay;

fn main() {}
