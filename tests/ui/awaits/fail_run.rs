//! A run is a future: the compiler proposes a forgotten `.await`.

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

async fn pay() -> InvoiceUpdate {
    Invoice::update().paid(true)
}

async fn process() -> hier_core::Result<bool> {
    let out = Approval::compile().invoke(Invoice::update())?;
    Ok(out.state().paid)
}

fn main() {
    let _ = process;
}
