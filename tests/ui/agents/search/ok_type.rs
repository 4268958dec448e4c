use hier_agents::prelude::*;

/// Looks an order up.
#[tool]
async fn lookup(order: u32) -> String {
    format!("order {order}")
}

const LIMIT: usize = 20;

graph! {
    Desk<BaseState> = Agent { tools: [lookup], search: ToolSearch { above: LIMIT } }
}

fn main() {
    let _ = Desk::compile();
}
