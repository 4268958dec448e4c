//! A view borrows all its fields or owns all. Managed fields can only be borrowed.

use hier_agents::prelude::*;
use hier_core::state::RemainingSteps;

#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
struct Filing {
    artifact: Option<String>,
    title: String,
    remaining_steps: RemainingSteps,
}

#[derive(View)]
#[view(of = Filing)]
struct Mixed<'a> {
    artifact: &'a Option<String>,
    title: String,
}

#[derive(View)]
#[view(of = Filing)]
struct Fixed {
    artifact: Option<String>,
    title: &'static String,
}

#[derive(View)]
#[view(of = Filing)]
struct Two<'a, 'b> {
    artifact: &'a Option<String>,
    title: &'b String,
}

#[derive(View)]
#[view(of = Filing)]
struct Changes<'a> {
    title: &'a mut String,
}

#[derive(View)]
#[view(of = Filing)]
struct Managed {
    title: String,
    remaining_steps: RemainingSteps,
}

fn main() {}
