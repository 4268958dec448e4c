use hier_agents::prelude::*;

/// Opens a page with the user's account.
#[tool(untrusted, sends)]
async fn browse(url: String) -> String {
    url
}

graph! {
    Desk<BaseState> = TodoGraph {
        tools: [browse],
    }
}

fn main() {
    let _ = Desk::compile();
}
