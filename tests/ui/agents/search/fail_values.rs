use hier_agents::prelude::*;

/// Looks an order up.
#[tool]
async fn lookup(order: u32) -> String {
    format!("order {order}")
}

graph! {
    Text<BaseState> = Agent { tools: [lookup], search: "bm25" }
}

graph! {
    Number<BaseState> = Agent { tools: [lookup], search: 20 }
}

graph! {
    List<BaseState> = Agent { tools: [lookup], search: [lookup] }
}

graph! {
    Options<BaseState> = ReactGraph { tools: [lookup], search: ToolSearch { abov: 20, results: 0, results: 5 } }
}

graph! {
    Foreign<BaseState> = Agent { tools: [lookup], tool_search: true }
}

fn main() {
    let _ = Text::compile();
}
