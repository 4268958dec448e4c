//! A reducer that does not support the field's type is reported at the reducer.

use hier_agents::prelude::*;

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct Finding {
    id: u32,
}

fn merge(old: &mut String, new: String) {
    old.push_str(&new);
}

fn add(old: u32, new: u32) -> u32 {
    old + new
}

#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
struct Filing {
    #[reducer(append)]
    count: u32,
    #[reducer(sum)]
    title: String,
    #[reducer(extend)]
    list: Vec<u32>,
    #[reducer(any)]
    risk: f64,
    #[reducer(max)]
    worst: Finding,
    #[reducer(by_id)]
    findings: Vec<Finding>,
    #[reducer(messages)]
    conversation: Vec<Message>,
    #[reducer(with = merge)]
    total: u64,
    #[reducer(with = add)]
    units: u32,
}

fn main() {}
