//! A state flattens at most one other state.

use hier_agents::prelude::*;

#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
struct A {
    a: String,
}

#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
struct B {
    b: String,
}

#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
struct Filing {
    #[state(flatten)]
    first: A,
    #[state(flatten)]
    second: B,
}

fn main() {
    let _ = Filing::update().a("a");
}
