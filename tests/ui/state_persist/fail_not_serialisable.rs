//! A channel is persisted, so its type must be serializable. The error is reported once, at the type.

use hier_agents::prelude::*;

#[derive(Clone, Debug)]
struct Handle;

#[derive(State, Clone, Debug, Default)]
struct Filing {
    handle: Option<Handle>,
    #[reducer(append)]
    handles: Vec<Handle>,
    title: String,
}

fn main() {}
