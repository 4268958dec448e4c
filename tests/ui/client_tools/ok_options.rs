use hier_agents::prelude::*;

/// Lets the user pick a file.
#[tool(client, name = "pick-file", untrusted, approve = tainted, timeout = 5m)]
async fn pick_file(kind: String) -> String;

graph! {
    Desk<MessagesState> = Agent {
        tools: [pick_file],
    }
}

fn main() {
    let _ = Desk::compile();
}
