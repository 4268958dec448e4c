use hier_agents::prelude::*;

#[derive(Question, Serialize, Deserialize, JsonSchema)]
#[question(answr = bool)]
struct Pay;

#[derive(Question, Serialize, Deserialize, JsonSchema)]
#[question(answer = bool, answer = String)]
struct Pick;

#[derive(Question, Serialize, Deserialize, JsonSchema)]
#[question(answer)]
struct Choose;

#[derive(Question, Serialize, Deserialize, JsonSchema)]
#[question(answer = "bool")]
struct Wait;

fn main() {}
