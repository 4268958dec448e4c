// The state has a `Debug` that hides the channel.

use hier_agents::prelude::*;

#[derive(State, Clone, Default)]
struct Desk {
    #[channel(secret)]
    token: String,
    open: bool,
}

/// The state of another crate keeps its own.
#[derive(State, Clone, Debug, Default)]
struct Shop {
    #[state(flatten)]
    desk: Desk,
}

fn main() {
    println!("{:?} {:?}", Desk::default(), Shop::default());
}
