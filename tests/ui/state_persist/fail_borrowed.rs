//! A stored channel owns its value. The method of the channel exists nevertheless.

use hier_agents::prelude::*;

#[derive(State, Clone, Debug, Default)]
struct Filing {
    title: &'static str,
}

fn main() {
    let _ = Filing::update().title("2026");
}
