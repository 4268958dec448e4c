//! A list has one `Compact`, and its fields configure it.

use hier_agents::prelude::*;
use hier_agents::Compact;
use hier_agents::layer::Limit;

graph! {
    Support<BaseState> = Agent {
        layers: [Compact { at: 0.8 }, Limit { model_calls: 50 }, Compact { at: 0.5 }],
    }
}

graph! {
    Forms<BaseState> = Agent {
        layers: [Compact(0.8), Compact { at: 0.8, at: 0.9 }, SummarizationMiddleware(4000)],
    }
}

fn main() {}
