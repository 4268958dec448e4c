use hier_agents::prelude::*;

#[derive(Question, Serialize, Deserialize, JsonSchema)]
#[question(answer = bool)]
struct Pay {
    amount: u32,
}

/// Pays.
#[tool]
async fn pay(amount: u32, pay: Ask<Pay>) -> hier_core::Result<String> {
    Ok(format!("paid: {}", pay.ask(Pay { amount }).await?))
}

/// Lets the user pick a file.
#[tool(client)]
async fn pick_file(kind: String) -> String;

graph! {
    Desk<MessagesState> = Agent {
        tools: [pay, pick_file],
        asks: [Pay],
    }
}

fn main() {
    let _ = Desk::compile();
}
