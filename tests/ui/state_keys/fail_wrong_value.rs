//! A written value has the channel's type. A channel without a reducer takes no `Overwrite`.

use hier_agents::prelude::*;
use hier_core::state::Overwrite;

#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
struct Filing {
    #[reducer(append)]
    findings: Vec<String>,
    artifact: Option<String>,
    year: u16,
}

fn main() {
    let _ = Filing::update().findings([1]);
    let _ = Filing::update().artifact(1);
    let _ = Filing::update().artifact(Overwrite(None));
    let _ = Filing::update().year("2026");
}
