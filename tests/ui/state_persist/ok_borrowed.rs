use hier_agents::prelude::*;

#[derive(State, Clone, Debug, Default)]
struct Filing {
    title: String,
    #[channel(untracked)]
    subtitle: &'static str,
}

fn main() {
    let _ = Filing::update().title("2026").subtitle("a draft");
}
