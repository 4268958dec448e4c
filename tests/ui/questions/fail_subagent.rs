use hier_agents::prelude::*;

#[derive(Question, Serialize, Deserialize, JsonSchema)]
#[question(answer = bool)]
struct Pay {
    amount: u32,
}

/// Pays an invoice.
#[tool]
async fn settle(amount: u32, pay: Ask<Pay>) -> hier_core::Result<String> {
    Ok(format!("paid: {}", pay.ask(Pay { amount }).await?))
}

graph! {
    /// Pays.
    Payer<BaseState> = ReactGraph {
        tools: [settle],
        asks: [Pay],
    }
}

graph! {
    Clerk<BaseState> = ReactGraph {
        subagents: [Payer],
    }
}

fn main() {
    let _ = Clerk::compile();
}
