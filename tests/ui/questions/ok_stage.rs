use hier_agents::prelude::*;

#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
struct Invoice {
    #[state(flatten)]
    base: BaseState,
    amount: u32,
    paid: bool,
}

#[derive(Question, Serialize, Deserialize, JsonSchema)]
#[question(answer = bool)]
struct Pay {
    amount: u32,
}

graph! {
    Check<Invoice> = SimpleGraph {
        compute: pay,
        asks: [Pay],
    }
}

graph! {
    Clerk<Invoice> = ReactGraph {
        front: [Check],
        asks: [Pay],
    }
}

async fn pay(invoice: &Invoice, pay: Ask<Pay>) -> hier_core::Result<InvoiceUpdate> {
    Ok(Invoice::update().paid(pay.ask(Pay { amount: invoice.amount }).await?))
}

fn main() {
    let _ = Clerk::compile();
}
