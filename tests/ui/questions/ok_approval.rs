use hier_agents::prelude::*;

#[derive(Question, Serialize, Deserialize, JsonSchema)]
#[question(answer = bool)]
struct Pay {
    amount: u32,
}

use hier_agents::ApprovalRequest;

/// Pays an invoice.
#[tool(needs_approval)]
async fn settle(amount: u32) -> String {
    format!("paid {amount}")
}

/// Pays an invoice.
#[tool]
async fn ask_first(amount: u32, pay: Ask<Pay>) -> hier_core::Result<String> {
    Ok(format!("paid: {}", pay.ask(Pay { amount }).await?))
}

graph! {
    Clerk<MessagesState> = Agent {
        tools: [ask_first, settle],
        asks: [Pay, ApprovalRequest],
    }
}

const _: Option<ApprovalRequest> = None;

fn main() {
    let _ = Clerk::compile();
}
