use hier_agents::prelude::*;
use hier_core::state::RemainingSteps;

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
    remaining_steps: RemainingSteps,
}

#[derive(View)]
#[view(of = Filing)]
struct Seen<'a> {
    artifact: &'a Option<String>,
    title: &'a String,
    messages: &'a Vec<String>,
    remaining_steps: &'a RemainingSteps,
}

#[derive(View)]
#[view(of = Filing)]
struct Asked {
    artifact: Option<String>,
    title: String,
    messages: Vec<String>,
}

fn main() {}
