use hier_agents::prelude::*;

#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
struct Invoice {
    amount: u32,
    paid: bool,
}

#[derive(Question, Serialize, Deserialize, JsonSchema)]
#[question(answer = bool)]
struct Pay {
    amount: u32,
}

#[derive(Question, Serialize, Deserialize, JsonSchema)]
#[question(answer = String)]
struct Pick {
    accounts: Vec<String>,
}

graph! {
    Approval<Invoice> = Graph {
        nodes: [pay],
        edges: [START >> pay >> END],
        asks: [Pay],
    }
}

const _: Option<Pick> = None;

async fn pay(pay: Ask<Pay>) -> hier_core::Result<()> {
    pay.ask(Pay { amount: 1 }).await.map(drop)
}

fn main() {
    let _ = Approval::compile();
}
