use hier_agents::prelude::*;

#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
struct Case {
    #[state(flatten)]
    base: MessagesState,
    amount: u32,
}

#[derive(View)]
#[view(of = Case)]
struct Open<'a> {
    amount: &'a u32,
}

#[derive(Question, Serialize, Deserialize, JsonSchema)]
#[question(answer = bool)]
struct Pay {
    amount: u32,
}

/// Pays the open invoice.
#[tool]
async fn settle(#[inject] open: Open<'_>, pay: Ask<Pay>) -> hier_core::Result<String> {
    Ok(format!("paid: {}", pay.ask(Pay { amount: *open.amount }).await?))
}

graph! {
    Clerk<Case> = Graph {
        nodes: [act = tools![settle]],
        edges: [START >> act >> END],
        asks: [Pay],
    }
}

fn main() {
    let _ = Clerk::compile();
}
