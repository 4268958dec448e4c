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
        nodes: [pay, charge],
        edges: [START >> pay >> charge >> END],
        on_entry: open,
        asks: [Pay],
    }
}

async fn pay(invoice: &Invoice, pay: Ask<Pay>) -> hier_core::Result<InvoiceUpdate> {
    Ok(Invoice::update().paid(pay.ask(Pay { amount: invoice.amount }).await?))
}

async fn open(invoice: &Invoice) -> InvoiceUpdate {
    Invoice::update().amount(invoice.amount.max(1))
}

async fn charge() {}

fn main() {
    let _ = Approval::compile();
}
