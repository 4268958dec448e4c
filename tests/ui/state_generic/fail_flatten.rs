//! Only a state can be flattened, also if it mentions a parameter.

use hier_agents::prelude::*;

#[derive(State, Clone, Default)]
struct Filing<T> {
    #[state(flatten)]
    base: Vec<T>,
    title: String,
}

fn main() {}
