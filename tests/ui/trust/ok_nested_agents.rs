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

/// Sends an e-mail.
#[tool(sends)]
async fn send_mail(to: String) -> String {
    to
}

graph! {
    Clerk<Filing> = Agent { tools: [customers] }
}

graph! {
    /// Sends e-mails.
    Courier<Filing> = Agent {
        tools: [send_mail { approve: |args, _, labels| labels.is_private() && args.to != "us" }],
    }
}

graph! {
    Custom<Filing, BaseContext> = Graph {
        input: untrusted,
        nodes: [Clerk, Courier],
        edges: [START >> Clerk >> Courier >> END],
    }
}

fn main() {
    let _ = Custom::compile();
}
