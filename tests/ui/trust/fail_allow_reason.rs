use hier_agents::prelude::*;

/// The customer list.
#[tool(private)]
async fn customers() -> String {
    "Ada, Grace".to_owned()
}

/// The next e-mail.
#[tool(untrusted)]
async fn read_mail() -> String {
    "Dear shop, …".to_owned()
}

/// Sends an e-mail.
#[tool(sends)]
async fn send_mail(to: String) -> String {
    to
}

graph! {
    Desk<BaseState> = Agent {
        tools: [customers, read_mail, send_mail],
        allow: trifecta(""),
    }
}

fn main() {
    let _ = Desk::compile();
}
