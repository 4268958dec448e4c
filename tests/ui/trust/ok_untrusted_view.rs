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

#[derive(View)]
#[view(of = Filing)]
struct Asked {
    note: Option<String>,
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
    Desk<Filing> = Agent {
        input: untrusted Asked,
        tools: [send_mail],
    }
}

fn main() {
    let _ = Desk::compile();
}
