//! A view's field is one of the state's, of the same type.

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
    title: String,
}

#[derive(View)]
#[view(of = Filing)]
struct Seen<'a> {
    artefact: &'a Option<String>,
    title: &'a u32,
    messages: &'a Vec<String>,
}

#[derive(View)]
#[view(of = Filing)]
struct Asked {
    artefact: Option<String>,
    title: u32,
    messages: Vec<String>,
}

fn main() {}
