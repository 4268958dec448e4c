use hier_agents::prelude::*;

#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
struct Chat {
    #[reducer(messages)]
    messages: Messages,
}

async fn think(_: &Chat) -> ChatUpdate {
    Chat::update()
}

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
    Custom<Chat> = Graph {
        nodes: [think, act = tools![customers, read_mail, send_mail { approve: tainted }]],
        edges: [START >> think >> act >> END],
    }
}

fn main() {
    let _ = Custom::compile();
}
