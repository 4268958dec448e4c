// A struct is not a hook. One error is enough.

use hier_core::prelude::*;

#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
struct Invoice {
    amount: u32,
}

struct Open;

graph! {
    Payment<Invoice> = Graph {
        nodes: [charge],
        edges: [START >> charge >> END],
        on_entry: Open,
    }
}

async fn charge() {}

fn main() {
    let _ = Payment::compile();
}
