use hier_agents::prelude::*;

#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
struct Invoice {
    paid: bool,
}

graph! {
    Approval<Invoice> = Graph {
        nodes: [pay],
        edges: [START >> pay >> END],
    }
}

async fn pay(run: &Run) -> hier_core::Result<InvoiceUpdate> {
    run.interrupt::<bool>(&"May it be paid?").await?;
    Ok(Invoice::update().paid(true))
}

fn main() {
    let _ = Approval::compile();
}
