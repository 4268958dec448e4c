use hier_agents::prelude::*;

/// Lets the user pick a file.
#[tool(client)]
async fn pick_file(kind: String) -> String;

mod server {
    use hier_agents::prelude::*;

    /// Picks a file of the server.
    #[tool]
    pub async fn pick_file(kind: String) -> String {
        kind
    }
}

graph! {
    Desk<MessagesState> = Agent {
        tools: [pick_file, server::pick_file],
    }
}

fn main() {
    let _ = Desk::compile();
}
