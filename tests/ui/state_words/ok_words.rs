use hier_agents::prelude::*;

#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
struct Filing {
    #[reducer(append)]
    findings: Vec<String>,
    #[reducer(last)]
    verdict: Option<bool>,
    #[channel(ephemeral)]
    hint: Option<String>,
    #[channel(topic(accumulate))]
    seen: Vec<String>,
    #[reducer(with = merge)]
    notes: Vec<String>,
    #[state(rename = "kind")]
    class: String,
}

fn merge(old: &mut Vec<String>, new: Vec<String>) {
    old.extend(new);
}

fn main() {
    let _ = Filing::update().findings(["f".to_owned()]).hint(None).seen(["s".to_owned()]).class("c");
}
