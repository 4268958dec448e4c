use hier_core::graph::Failure;
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
        on_exit: close,
    }
}

async fn open(_: Sent<u32>) {}

async fn close(_: Failure) {}

async fn charge() {}

fn main() {
    let _ = Payment::compile();
}
