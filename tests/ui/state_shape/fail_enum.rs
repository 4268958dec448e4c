//! A state is a struct with named fields. Other types get no follow-up errors elsewhere.

use hier_agents::prelude::*;

#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
enum Phase {
    #[default]
    Open,
}

#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
struct Pair(String, u32);

#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
struct Unit;

fn main() {
    let _ = (Phase::update(), Pair::update(), Unit::update());
}
