use hier_agents::prelude::*;

#[derive(Question, Serialize, Deserialize, JsonSchema)]
#[question(answer = bool)]
struct Pay {
    r#type: String,
}

#[derive(Question, Serialize, Deserialize, JsonSchema)]
#[question(answer = bool)]
struct Pick {
    #[serde(default, rename = "type")]
    kind: String,
}

fn main() {}
