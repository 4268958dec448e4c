use hier_agents::prelude::*;
use hier_core::state::Overwrite;

#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
struct Base {
    messages: Vec<String>,
}

#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
struct Filing {
    #[state(flatten)]
    base: Base,
    #[reducer(append)]
    findings: Vec<String>,
    artifact: Option<String>,
    year: u16,
}

fn main() {
    let _ = (Filing::channels().artifact, Filing::channels().messages);
    let _ = Filing::update().artifact(None).messages(Vec::new()).findings(Overwrite(vec![])).year(2026);
}
