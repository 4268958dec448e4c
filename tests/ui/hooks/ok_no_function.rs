// The nearest program: the hook is a function.

use hier_core::prelude::*;

#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
struct Invoice {
    amount: u32,
}

graph! {
    Payment<Invoice> = Graph {
        nodes: [charge],
        edges: [START >> charge >> END],
        on_entry: open,
    }
}

async fn open() -> InvoiceUpdate {
    Invoice::update().amount(1)
}

async fn charge() {}

fn main() {
    let _ = Payment::compile();
}
