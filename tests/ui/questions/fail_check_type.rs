use hier_agents::prelude::*;

#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
struct Invoice {
    amount: u32,
    paid: bool,
}

#[derive(Question, Serialize, Deserialize, JsonSchema)]
#[question(answer = bool)]
struct Pay {
    amount: u32,
}

graph! {
    Approval<Invoice> = Graph {
        nodes: [pay],
        edges: [START >> pay >> END],
        asks: [Pay],
    }
}

async fn pay(pay: Ask<Pay>) -> hier_core::Result<()> {
    let check = |answer: &String| if answer == &"yes" { Ok(()) } else { Err("pay it".to_owned()) };
    pay.ask(Pay { amount: 1 }).check(check).await.map(drop)
}

fn main() {
    let _ = Approval::compile();
}
