//! Nothing is asked before the question is awaited.

#![deny(unused_must_use)]

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

async fn pay(run: &Run) -> InvoiceUpdate {
    run.interrupt::<bool>(&"May it be paid?");
    Invoice::update().paid(true)
}

fn main() {
    let _ = Approval::compile();
}
