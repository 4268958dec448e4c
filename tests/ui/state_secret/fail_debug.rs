//! `State` implements `Debug` for a state with a secret channel. A derived one would show the value.

use hier_agents::prelude::*;

#[derive(State, Clone, Debug, Default)]
struct Desk {
    #[channel(secret)]
    token: String,
    open: bool,
}

fn main() {
    println!("{:?}", Desk::default());
}
