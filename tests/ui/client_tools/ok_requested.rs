use hier_agents::prelude::*;

/// The list of all customers.
#[tool(private)]
async fn customers() -> &'static str {
    "Ada, Grace"
}

graph! {
    Desk<MessagesState> = Agent {
        tools: [customers, |context| &context.client_tools { approve: always }],
    }
}

fn main() {
    let _ = Desk::compile();
}
