use hier_agents::prelude::*;

/// The customer list.
#[tool(private)]
async fn customers() -> String {
    "Ada, Grace".to_owned()
}

/// Sends an e-mail.
#[tool(sends)]
async fn send_mail(to: String) -> String {
    to
}

graph! {
    Desk<BaseState> = Agent {
        tools: [customers, send_mail],
    }
}

fn main() {
    let _ = Desk::compile();
}
