use hier_agents::prelude::*;

#[derive(Question, Serialize, Deserialize, JsonSchema)]
#[question(answer = bool)]
struct Pay {
    amount: u32,
}

/// Pays an invoice.
#[tool]
async fn settle(amount: u32) -> String {
    format!("paid {amount}")
}

graph! {
    Clerk<MessagesState> = Graph {
        nodes: [act = tools![settle] { on_error: pay_by_hand }],
        edges: [START >> act >> END],
        asks: [Pay],
    }
}

async fn pay_by_hand(pay: Ask<Pay>) -> hier_core::Result<()> {
    pay.ask(Pay { amount: 1 }).await.map(|_| ())
}

fn main() {
    let _ = Clerk::compile();
}
