// An agent with a search for its tools is the node.

use hier_agents::prelude::*;

/// Looks.
#[tool]
async fn look() -> bool {
    true
}

graph! {
    Support<MessagesState, BaseContext> = Graph {
        nodes: [Clerk],
        edges: [START >> Clerk >> END],
    }
}

graph! {
    Clerk<MessagesState, BaseContext> = Agent { tools: [look], search: true }
}

fn main() {
    let _ = Support::compile();
}
