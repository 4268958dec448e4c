//! What a flattened state's channels are is said there.

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
