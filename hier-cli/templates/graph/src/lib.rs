//! Reviews orders: accepts small ones, and asks a person to sign large ones.

use hier::prelude::*;

/// An order and its history.
#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
pub struct Order {
    /// The price of the order.
    pub amount: u32,
    /// The steps taken so far.
    #[reducer(append)]
    pub log: Vec<String>,
}

graph! {
    /// Accepts small orders, and asks a person to sign large ones.
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
