use hier_agents::prelude::*;
use hier_agents::Compact;
use hier_agents::layer::{Inherited, Limit};

graph! {
    Support<BaseState> = Agent {
        layers: [Inherited(Compact { at: 0.5 }), Limit { model_calls: 50 }, Compact],
    }
}

fn main() {
    assert_eq!(Support::compile().layers(), ["Inherited(Compact)", "Limit", "Compact"]);
}
