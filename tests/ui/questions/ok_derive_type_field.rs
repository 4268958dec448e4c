use hier_agents::prelude::*;

#[derive(Question, Serialize, Deserialize, JsonSchema)]
#[question(answer = bool)]
struct Pay {
    kind: String,
}

#[derive(Question, Serialize, Deserialize, JsonSchema)]
#[question(answer = bool)]
struct Pick {
    #[serde(default, rename = "kind")]
    r#type: String,
}

fn main() {}
