//! A channel with the name of a flattened one, in a state with a type parameter.

use hier_agents::prelude::*;
use hier_core::state::State;

#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
struct Base<T> {
    items: Vec<T>,
}

#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
struct Filing<T> {
    #[state(flatten)]
    base: Base<T>,
    items: String,
}

// The compiler evaluates the table of a generic type only when it is used.
const _: hier_core::channel::Table = <Filing<u8> as State>::CHANNELS;

fn main() {}
