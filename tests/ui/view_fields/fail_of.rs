//! A view belongs to one state.

use hier_agents::prelude::*;

#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
struct Filing {
    title: String,
}

#[derive(View)]
struct Missing<'a> {
    title: &'a String,
}

#[derive(View)]
#[view(off = Filing)]
struct Misspelt {
    title: String,
}

#[derive(View)]
#[view(of = String)]
struct NoState {
    title: String,
}

#[derive(View)]
#[view(of = Filing)]
struct Tuple(String);

fn main() {}
