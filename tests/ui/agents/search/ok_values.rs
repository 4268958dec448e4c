use hier_agents::prelude::*;

/// Looks an order up.
#[tool]
async fn lookup(order: u32) -> String {
    format!("order {order}")
}

use hier_agents::ToolSearch;

const MANY: bool = true;

graph! {
    On<BaseState> = Agent { tools: [lookup], search: true }
}

graph! {
    Off<BaseState> = Agent { tools: [lookup], search: false }
}

graph! {
    Options<BaseState> = ReactGraph { tools: [lookup], search: ToolSearch { above: 20, results: 5 } }
}

graph! {
    Given<BaseState> = Agent { tools: [lookup], search: ToolSearch::new().above(20) }
}

graph! {
    Constant<BaseState> = Agent { search: MANY }
}

fn main() {
    let _ = (On::compile(), Off::compile(), Options::compile(), Given::compile(), Constant::compile());
}
