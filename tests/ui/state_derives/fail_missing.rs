//! A state needs `Clone` and `Default`. A missing one is reported at its name.

use hier_agents::prelude::*;

#[derive(State, Debug, Default, Serialize, Deserialize)]
struct NoClone {
    title: String,
}

#[derive(State, Clone, Debug, Serialize, Deserialize)]
struct NoDefault {
    title: String,
}

fn main() {}
