use hier_agents::prelude::*;
use hier_agents::{OperatorQuestion, ask_operator};

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
    Clerk<BaseState> = ReactGraph {
        tools: [ask_operator, settle],
        asks: [Pay],
    }
}

const _: Option<OperatorQuestion> = None;

fn main() {
    let _ = Clerk::compile();
}
