use hier_agents::prelude::*;

#[derive(Question, Serialize, JsonSchema)]
#[question(answer = bool)]
struct Pay<'a> {
    to: &'a str,
}

fn main() {}
