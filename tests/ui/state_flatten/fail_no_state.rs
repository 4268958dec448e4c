//! Only a state can be flattened.

use hier_agents::prelude::*;

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct Base {
    list: Vec<String>,
}

#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
struct Filing {
    #[state(flatten)]
    base: Base,
    title: String,
}

fn main() {}
