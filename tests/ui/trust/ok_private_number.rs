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

/// A salary.
#[tool]
async fn salary(name: String) -> String {
    name
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
    /// Knows the salaries.
    Clerk<Filing> = Agent {
        tools: [salary],
        answer: count,
    }
}

graph! {
    Desk<Filing> = Agent {
        tools: [read_mail, send_mail],
        subagents: [Clerk {}],
    }
}

fn main() {
    let _ = Desk::compile();
}
