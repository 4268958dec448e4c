//! The channels of a flattened state are declared in that state.

use hier_agents::prelude::*;

#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
struct Base {
    list: Vec<String>,
}

#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
struct Filing {
    #[state(flatten, rename = "other")]
    #[reducer(append)]
    base: Base,
}

fn main() {}
