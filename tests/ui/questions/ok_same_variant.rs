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

mod transfer {
    use hier_agents::prelude::*;

    #[derive(Question, Serialize, Deserialize, JsonSchema)]
    #[question(answer = bool, name = "transfer")]
    pub struct Pay {}
}

graph! {
    Approval<Invoice> = Graph {
        nodes: [pay, transfer],
        edges: [START >> pay >> transfer >> END],
        asks: [Pay, Transfer = transfer::Pay],
    }
}

async fn pay(invoice: &Invoice, pay: Ask<Pay>) -> hier_core::Result<InvoiceUpdate> {
    Ok(Invoice::update().paid(pay.ask(Pay { amount: invoice.amount }).await?))
}

async fn transfer(transfer: Ask<transfer::Pay>) -> hier_core::Result<()> {
    transfer.ask(transfer::Pay {}).await.map(drop)
}

fn main() {
    let _ = Approval::compile();
}
