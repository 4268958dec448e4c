use hier_agents::prelude::*;
use hier_core::reducer::Identified;

#[derive(Clone, Debug, Default, PartialEq, PartialOrd, Serialize, Deserialize)]
struct Finding {
    id: u32,
}

impl Identified for Finding {
    type Id = u32;
    fn id(&self) -> &u32 {
        &self.id
    }
}

fn merge(old: &mut u64, new: u64) {
    *old += new;
}

#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
struct Filing {
    #[reducer(sum)]
    count: u32,
    #[reducer(append)]
    title: String,
    #[reducer(extend)]
    list: std::collections::BTreeSet<u32>,
    #[reducer(any)]
    risk: bool,
    #[reducer(max)]
    worst: Finding,
    #[reducer(by_id)]
    findings: Vec<Finding>,
    #[reducer(with = merge)]
    total: u64,
}

fn main() {}
