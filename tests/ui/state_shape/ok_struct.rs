use std::borrow::Cow;

use hier_agents::prelude::*;

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
enum Phase {
    #[default]
    Open,
}

#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
pub struct Filing {
    phase: Phase,
    title: String,
    label: Cow<'static, str>,
}

fn main() {
    let _ = Filing::update().phase(Phase::Open).title("t").label("l");
}
