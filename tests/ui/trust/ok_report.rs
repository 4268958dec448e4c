use hier_agents::prelude::*;

#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
struct Filing {
    #[state(flatten)]
    base: BaseState,
    topic: Option<Topic>,
    note: Option<String>,
    count: u32,
}

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema, TextFree)]
enum Topic {
    Invoice,
    Complaint,
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
    /// Reads e-mails.
    Reader<Filing> = Agent {
        tools: [read_mail],
        answer: topic,
    }
}

graph! {
    Desk<Filing> = Agent {
        tools: [customers, send_mail],
        subagents: [Reader {}],
    }
}

fn main() {
    let _ = Desk::compile();
}
