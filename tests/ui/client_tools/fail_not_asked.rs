use hier_agents::prelude::*;

/// Lets the user pick a file.
#[tool(client)]
async fn pick_file(kind: String) -> String;

/// Shows a text.
#[tool(client)]
async fn show(text: String);

graph! {
    Desk<MessagesState> = Agent {
        tools: [show],
        asks: [ShowCall, PickFileCall],
    }
}

fn main() {
    let _ = Desk::compile();
}
