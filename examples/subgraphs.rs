//! Graphs as nodes of graphs: over the same state, over another state, and commands to the parent.
//!
//! `Intake` has the state of the desk. `Pricing` has another state, which shares the channels `amount` and `notes` by name.
//! It starts with the parent's values and returns its writes, and its `discount` stays private. It also contains a graph.
//! `Fraud` returns a command to its parent: an update of the *order*, and the next node of the desk.
//!
//! Look at the namespaces in the output (`Pricing ▸ Rounding ▸ round`). If `amount` has another type in `Price`, or a graph
//! contains itself, the program does not compile.
//!
//! Run it: `cargo run --example subgraphs`

use hier::prelude::*;
use hier::runs::LogEvent;
use hier::{Event, Result};
use serde_json::Value;

#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
struct Order {
    customer: String,
    amount: u64,
    #[reducer(append)]
    notes: Vec<String>,
}

graph! {
    /// Processes an order from its arrival to the van.
    Desk<Order> = Graph {
        nodes: [Intake, Pricing, Fraud { goto: [ship, call_customer] }, ship, call_customer],
        edges: [START >> Intake >> Pricing >> Fraud, ship >> END, call_customer >> END],
    }
}

async fn ship(order: &Order) -> OrderUpdate {
    Order::update().notes([format!("shipped to {} for {}", order.customer, order.amount)])
}

async fn call_customer(order: &Order) -> OrderUpdate {
    Order::update().notes([format!("waiting for {} to call back", order.customer)])
}

graph! {
    /// Checks an order with two parallel nodes over the state of the desk.
    Intake<Order> = Graph {
        nodes: [check_name, check_amount],
        edges: [START >> [check_name, check_amount], check_name >> END, check_amount >> END],
    }
}

async fn check_name(order: &Order) -> Result<OrderUpdate> {
    if order.customer.is_empty() {
        return Err(NodeError::permanent("an order needs a customer"));
    }
    Ok(Order::update())
}

async fn check_amount(order: &Order) -> OrderUpdate {
    Order::update().notes([format!("{} items received", order.amount / 100)])
}

/// The channels that pricing shares with an order, and a private one.
#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
struct Price {
    amount: u64,
    #[reducer(append)]
    notes: Vec<String>,
    discount: u64,
}

graph! {
    /// Finds the price. A graph over another state, with a subgraph.
    Pricing<Price> = Graph {
        nodes: [rebate, Rounding],
        edges: [START >> rebate >> Rounding >> END],
    }
}

graph! {
    /// Rounds the price. A graph with one node.
    Rounding<Price> = SimpleGraph { compute: round }
}

async fn rebate(price: &Price) -> PriceUpdate {
    let discount = price.amount / 12;
    Price::update().discount(discount).amount(price.amount - discount)
}

async fn round(price: &Price) -> PriceUpdate {
    let amount = price.amount / 100 * 100;
    Price::update().amount(amount).notes([format!("priced at {amount}, discount {}", price.discount)])
}

graph! {
    /// Decides the next node of the order with a command to the parent.
    Fraud<Price> = SimpleGraph { compute: judge }
}

async fn judge(price: &Price) -> Command<Price> {
    let (risk, next) = if price.amount > 50_000 { ("high", Desk::call_customer) } else { ("low", Desk::ship) };
    Command::update(Order::update().notes([format!("risk is {risk}")])).goto(next).parent()
}

#[tokio::main]
async fn main() -> Result<()> {
    let desk = Desk::compile();
    for (customer, amount) in [("Ada", 12_345), ("Bob", 98_765), ("", 100)] {
        println!("an order of {customer:?} over {amount}");
        let order = Order::update().customer(customer).amount(amount);
        let config = Config::new().stream_subgraphs(true);
        let mut events = desk.stream(order).config(config).modes([StreamMode::Updates]);
        while let Some(event) = events.next().await {
            match event {
                Ok(Event::Updates(done)) => show(&[], &done.node, &done.update.writes().to_json()?),
                Ok(Event::Nested(inner)) => {
                    if let LogEvent::Updates(done) = &inner.event {
                        show(&inner.namespace, &done.node, &done.writes);
                    }
                }
                Ok(_) => {}
                Err(error) => println!("  error: {error}"),
            }
        }
        println!();
    }
    // A subgraph also runs by itself.
    let price = Pricing::compile().invoke(Price::update().amount(999)).await?.into_state();
    println!("pricing alone: 999 becomes {}, the discount is {}", price.amount, price.discount);
    Ok(())
}

/// Prints a line for an update. The namespace is the path of graphs, `node:task id` for each.
fn show(namespace: &[String], node: &str, update: &Value) {
    let graphs = namespace.iter().map(|level| level.split(':').next().unwrap_or(level));
    let path = graphs.chain([node]).collect::<Vec<_>>().join(" ▸ ");
    println!("  {path:30} {update}");
}
