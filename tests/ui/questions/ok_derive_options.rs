use hier_agents::prelude::*;

#[derive(Question, Serialize, Deserialize, JsonSchema)]
#[question(answer = bool)]
struct Pay;

#[derive(Question, Serialize, Deserialize, JsonSchema)]
#[question(answer = String)]
struct Pick;

#[derive(Question, Serialize, Deserialize, JsonSchema)]
#[question(answer = Vec<String>)]
struct Choose;

#[derive(Question, Serialize, Deserialize, JsonSchema)]
#[question(answer = Option<(u8, String)>)]
struct Wait;

fn main() {}
