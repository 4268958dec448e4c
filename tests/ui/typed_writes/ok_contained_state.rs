// A view of a flattened state writes to the outer state.

use hier_agents::prelude::*;

#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
struct Filing {
    title: String,
    artifact: Option<String>,
    #[reducer(append)]
    findings: Vec<String>,
}

#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
struct Order {
    #[state(flatten)]
    filing: Filing,
}

#[derive(View)]
#[view(of = Filing)]
struct Titled {
    title: String,
}

async fn order() -> Titled {
    Titled { title: String::new() }
}

async fn direct() -> Command<Order> {
    Command::update(Titled { title: String::new() })
}

graph! {
    Review<Order> = Graph { nodes: [order, direct], edges: [START >> order >> direct >> END] }
}

fn main() {
    let _ = Review::compile();
}
