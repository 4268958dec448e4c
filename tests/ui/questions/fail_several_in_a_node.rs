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
        nodes: [both],
        edges: [START >> both >> END],
        asks: [Pay],
    }
}

async fn both(pay: Ask<Pay>, pick: Ask<Pick>) -> hier_core::Result<()> {
    pay.ask(Pay { amount: 1 }).await?;
    pick.ask(Pick { accounts: Vec::new() }).await.map(drop)
}

fn main() {
    let _ = Approval::compile();
}
