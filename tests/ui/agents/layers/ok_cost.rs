//! Costs as literals, constants and expressions.
use hier_agents::layer::{Inherited, Limit};
use hier_agents::prelude::*;

const MOST: f64 = 2.50;

graph! {
    Support<BaseState> = Agent {
        layers: [
            Limit { cost: 2.00 },
            Limit { cost: 0.0 },
            Limit { cost: 2e-3, tokens: 5 },
            Limit { cost: MOST },
            Limit { cost: -MOST + 5.0 },
            Inherited(Limit { model_calls: 50, cost: 10.00 }),
        ],
    }
}

fn main() {
    let _ = Support::compile();
}
