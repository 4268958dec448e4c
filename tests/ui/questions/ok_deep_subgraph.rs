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

graph! {
    Middle<Invoice> = Graph {
        nodes: [pick, approval = Approval],
        edges: [START >> pick >> approval >> END],
        asks: [Pay, Pick],
    }
}

graph! {
    Billing<Invoice> = Graph {
        nodes: [Middle],
        edges: [START >> Middle >> END],
        asks: [Pick, Pay],
    }
}

async fn pay(invoice: &Invoice, pay: Ask<Pay>) -> hier_core::Result<InvoiceUpdate> {
    Ok(Invoice::update().paid(pay.ask(Pay { amount: invoice.amount }).await?))
}

async fn pick(pick: Ask<Pick>) -> hier_core::Result<()> {
    pick.ask(Pick { accounts: Vec::new() }).await.map(drop)
}

fn main() {
    let _ = Billing::compile();
}
