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
    Approval<Invoice, BaseContext> = Graph {
        nodes: [approve, pay, wait, explain, read],
        edges: [START >> approve >> pay >> wait >> explain >> read >> END],
        asks: [Pay],
    }
}

async fn approve(run: &Run<BaseContext>) -> hier_core::Result<InvoiceUpdate> {
    let known = run.interrupt::<bool>(&"Is it known?").await?;
    let paid: bool = run.interrupt("May it be paid?").await?;
    Ok(Invoice::update().paid(known && paid))
}

async fn pay(pay: Ask<Pay>) -> hier_core::Result<InvoiceUpdate> {
    let paid = pay.ask(Pay { amount: 1 }).await?;
    Ok(Invoice::update().paid(paid))
}

async fn wait(run: &Run<BaseContext>) -> hier_core::Result<InvoiceUpdate> {
    let paid: bool = run.signal("paid").await?;
    Ok(Invoice::update().paid(paid))
}

async fn explain(run: &Run<BaseContext>) -> hier_core::Result<()> {
    let text = run.model()?.ask("Why?").await?.text();
    drop(text);
    Ok(())
}

async fn read(run: &Run<BaseContext>) -> hier_core::Result<InvoiceUpdate> {
    let amount: u32 = run.model()?.ask("How much?").output().await?;
    Ok(Invoice::update().amount(amount))
}

fn main() {
    let _ = Approval::compile();
}
