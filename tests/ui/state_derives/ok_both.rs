use hier_agents::prelude::*;

#[derive(State, Clone, Default)]
struct Filing {
    title: String,
}

fn main() {
    let _ = Filing::update().title("t");
}
