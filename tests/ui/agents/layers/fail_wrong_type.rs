use hier_agents::prelude::*;
use hier_agents::layer::Limit;

graph! {
    Support<BaseState> = Agent {
        layers: [Limit { model_calls: "50" }],
    }
}

fn main() {
    let _ = Support::compile();
}
