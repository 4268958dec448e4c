//! Reviews orders: small ones are accepted, large ones a person signs.

use hier::prelude::*;

/// What is known of an order.
#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
pub struct Order {
    /// What it costs.
    pub amount: u32,
    /// What was done with it.
    #[reducer(append)]
    pub log: Vec<String>,
}

graph! {
    /// Accepts small orders, and asks a person about large ones.
    pub Review<Order> = Graph {
        nodes: [weigh, sign, accept],
        edges: [START >> weigh >> if is_large { sign } else { accept }, sign >> accept >> END],
    }
}

async fn weigh(order: &Order) -> OrderUpdate {
    Order::update().log([format!("it costs {}", order.amount)])
}

fn is_large(order: &Order) -> bool {
    order.amount > 100
}

async fn sign(order: &Order, run: &Run) -> hier::Result<OrderUpdate> {
    let name: String = run.interrupt(&format!("Who signs an order of {}?", order.amount)).await?;
    Ok(Order::update().log([format!("signed by {name}")]))
}

async fn accept() -> OrderUpdate {
    Order::update().log(["accepted"])
}
