use hier_agents::prelude::*;

#[derive(Question, Serialize, JsonSchema)]
#[question(answer = bool)]
struct Pay;

// A question without all derives, and an answer without them, are each reported once.
#[derive(Question)]
#[question(answer = bool)]
struct Ship;

struct Amount;

#[derive(Question, Serialize, Deserialize, JsonSchema)]
#[question(answer = Amount)]
struct Refund;

#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
struct Order {
    amount: u32,
}

graph! {
    Shop<Order> = Graph {
        nodes: [ship],
        edges: [START >> ship >> END],
        asks: [Ship],
    }
}

async fn ship(_ship: Ask<Ship>) {}

fn main() {
    let _ = Shop::compile();
}
