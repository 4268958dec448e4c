use hier_agents::prelude::*;

#[derive(Question, Serialize, Deserialize, JsonSchema)]
#[question(answer = bool)]
enum Pay {
    Card,
    Cash,
}

fn main() {}
