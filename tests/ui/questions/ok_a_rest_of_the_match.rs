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

#[derive(Question, Serialize, Deserialize, JsonSchema)]
#[question(answer = String)]
struct Pick {
    accounts: Vec<String>,
}

graph! {
    Approval<Invoice> = Graph {
        nodes: [pay, pick],
        edges: [START >> pay >> pick >> END],
        asks: [Pay, Pick],
    }
}

fn answer(question: ApprovalQuestion) -> hier_core::QuestionAnswer {
    match question {
        ApprovalQuestion::Pay(pay) => pay.answer(pay.amount < 100),
        other => hier_core::QuestionAnswer { id: other.stored().id.clone(), value: "main".into() },
    }
}

async fn pay(invoice: &Invoice, pay: Ask<Pay>) -> hier_core::Result<InvoiceUpdate> {
    Ok(Invoice::update().paid(pay.ask(Pay { amount: invoice.amount }).await?))
}

async fn pick(pick: Ask<Pick>) -> hier_core::Result<()> {
    pick.ask(Pick { accounts: Vec::new() }).await.map(drop)
}

fn main() {
    let _ = Approval::compile();
}
