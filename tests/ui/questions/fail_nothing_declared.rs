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

graph! {
    Approval<Invoice> = Graph {
        nodes: [pay],
        edges: [START >> pay >> END],
        asks: [],
    }
}

async fn pay(invoice: &Invoice, pay: Ask<Pay>) -> hier_core::Result<InvoiceUpdate> {
    Ok(Invoice::update().paid(pay.ask(Pay { amount: invoice.amount }).await?))
}

async fn note() {}

fn main() {
    let _ = Approval::compile();
}
