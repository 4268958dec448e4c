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

async fn open(_: Option<Sent<u32>>) {}

fn close(_: &Invoice) {}

async fn charge() {}

fn main() {
    let _ = Payment::compile();
}
