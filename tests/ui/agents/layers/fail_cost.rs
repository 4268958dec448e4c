//! Costs that are not amounts of US dollars.
use hier_agents::layer::{Inherited, Limit};
use hier_agents::prelude::*;

graph! {
    Misspelled<BaseState> = Agent {
        layers: [Limit { costs: 2.00 }, Limit { cost: -2.00 }, Inherited(Limit { model_calls: 50, cost: -1 })],
    }
}

fn main() {}
