use hier_agents::prelude::*;

/// Pays an invoice.
#[tool(needs_approval)]
async fn settle(amount: u32) -> String {
    format!("paid {amount}")
}

graph! {
    Clerk<MessagesState> = Agent {
        tools: [settle],
    }
}

fn main() {
    let _ = Clerk::compile();
}
