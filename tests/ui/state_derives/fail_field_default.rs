//! The type of each field needs `Default`.

use hier_agents::prelude::*;

#[derive(Clone, Debug, Serialize, Deserialize)]
enum Mode {
    Fast,
}

#[derive(State, Clone, Debug, Serialize, Deserialize)]
struct Filing {
    mode: Mode,
    year: u16,
}

#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
struct Case {
    mode: Mode,
}

fn main() {
    let _ = (Filing::update(), Case::update());
}
