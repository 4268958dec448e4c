//! The word `secret`, where it has no meaning.

use hier_agents::prelude::*;

#[derive(State, Clone, Default)]
struct Base {
    #[channel(secret = true)]
    valued: String,
    #[channel(secrt)]
    misspelt: String,
    #[channel(secret, secret)]
    twice: String,
    #[channel(secret)]
    #[reducer(messages)]
    messages: Messages,
    #[channel(secret)]
    left: RemainingSteps,
}

#[derive(State, Clone, Default)]
struct Desk {
    #[channel(secret)]
    #[state(flatten)]
    base: Base,
}

fn main() {
    let _ = Desk::update();
}
