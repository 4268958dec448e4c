//! A field has the type of its channel, or is an `Option` or an `Overwrite` of it.

use hier_agents::prelude::*;
use hier_core::state::Overwrite;

#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
struct Filing {
    title: String,
    artifact: Option<String>,
    #[reducer(append)]
    findings: Vec<String>,
}

#[derive(View)]
#[view(of = Filing)]
struct Optional {
    #[view(optional)]
    title: String,
}

#[derive(View)]
#[view(of = Filing)]
struct Unmarked {
    title: Option<String>,
}

#[derive(View)]
#[view(of = Filing)]
struct Twice {
    #[view(optional)]
    #[view(optional)]
    title: Option<String>,
}

#[derive(View)]
#[view(of = Filing)]
struct Misspelt {
    #[view(optinal)]
    title: Option<String>,
}

#[derive(View)]
#[view(of = Filing)]
struct Renamed {
    #[view(rename = "name")]
    title: Option<String>,
}

#[derive(View)]
#[view(of = Filing)]
struct Borrowed<'a> {
    #[view(optional)]
    title: &'a String,
}

#[derive(View)]
#[view(of = Filing)]
struct Replaced {
    title: Overwrite<String>,
}

fn main() {}
