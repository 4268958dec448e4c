use hier_agents::prelude::*;

/// Lets the user pick a file.
#[tool]
async fn pick_file(kind: String) -> String {
    kind
}

graph! {
    Desk<MessagesState> = Agent {
        tools: [pick_file],
    }
}

fn main() {
    let _ = Desk::compile();
}
