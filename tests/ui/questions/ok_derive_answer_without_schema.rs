use hier_agents::prelude::*;

#[derive(Question, Serialize, Deserialize, JsonSchema)]
#[question(answer = Decision)]
struct Pay;

#[derive(Serialize, Deserialize, JsonSchema)]
enum Decision {
    Yes,
    No,
}

fn main() {}
