//! For a misspelt channel, the compiler's own error suggests the right name, also through `flatten`.

use hier_agents::prelude::*;

#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
struct Base {
    messages: Vec<String>,
}

#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
struct Filing {
    #[state(flatten)]
    base: Base,
    artifact: Option<String>,
}

fn main() {
    let _ = Filing::channels().artefact;
    let _ = Filing::channels().mesages;
    let _ = Filing::update().artefact(None);
    let _ = Filing::update().mesages(Vec::new());
}
