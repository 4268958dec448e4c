//! Names that belong to the engine.

use hier_agents::prelude::*;

#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
struct Filing {
    __start__: String,
    #[state(rename = "__input__")]
    input: String,
    #[state(rename = "branch:to:review")]
    branch: String,
    #[state(rename = "")]
    nothing: String,
}

fn main() {}
