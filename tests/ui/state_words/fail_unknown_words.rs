//! Unknown words in attributes: all are reported at once, each with the nearest known one.

use hier_agents::prelude::*;

#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
struct Filing {
    #[reducer(apend)]
    findings: Vec<String>,
    #[reducer(newest)]
    verdict: Option<bool>,
    #[channel(ephemral)]
    hint: Option<String>,
    #[channel(topic(accumulated))]
    seen: Vec<String>,
    #[channel(append)]
    notes: Vec<String>,
    #[state(renamed = "kind")]
    class: String,
}

fn main() {
    // The methods exist nevertheless.
    let _ = Filing::update().findings(["f".to_owned()]).hint(None).seen(["s".to_owned()]).class("c");
}
