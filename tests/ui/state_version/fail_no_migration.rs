//! A function that is not a migration.

use hier_agents::prelude::*;

#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
#[state(version = 2, migrate = from_v1)]
struct Case {
    title: String,
}

fn from_v1(old: String) -> String {
    old
}

fn main() {}
