//! A state owns its values.

use hier_agents::prelude::*;

#[derive(State, Clone, Debug, Default)]
struct Filing<'a> {
    title: &'a str,
}

fn main() {}
