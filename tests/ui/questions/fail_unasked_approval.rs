use hier_agents::prelude::*;
use hier_agents::ApprovalRequest;

/// Pays an invoice.
#[tool]
async fn settle(amount: u32) -> String {
    format!("paid {amount}")
}

graph! {
    Clerk<MessagesState> = Agent {
        tools: [settle],
        asks: [ApprovalRequest],
    }
}

fn main() {
    let _ = Clerk::compile();
}
