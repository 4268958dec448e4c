use hier_agents::prelude::*;

#[derive(Question, Serialize, Deserialize, JsonSchema)]
#[question(answer = bool)]
struct Pay {
    with: Means,
}

#[derive(Serialize, Deserialize, JsonSchema)]
enum Means {
    Card,
    Cash,
}

fn main() {}
