//! The channels of a type parameter are unknown.

use hier_agents::prelude::*;

#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
struct Filing<B> {
    #[state(flatten)]
    base: B,
    title: String,
}

fn main() {}
