//! An unknown type of a field is reported once.

use hier_agents::prelude::*;

#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
struct Filing {
    amount: Missing,
    done: bool,
}

fn main() {}
