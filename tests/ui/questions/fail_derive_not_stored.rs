use hier_agents::prelude::*;

#[derive(Question, Serialize, JsonSchema)]
#[question(answer = bool)]
struct Pay;

fn main() {}
