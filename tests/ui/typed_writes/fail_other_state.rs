//! A view writes to its own state, and to states that contain it.

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
    title: String,
}

#[derive(View)]
#[view(of = Order)]
struct Ordered {
    title: String,
}

async fn order() -> Ordered {
    Ordered { title: String::new() }
}

async fn direct() -> Command<Filing> {
    Command::update(Ordered { title: String::new() })
}

graph! {
    Review<Filing> = Graph { nodes: [order, direct], edges: [START >> order >> direct >> END] }
}

fn main() {
    let _ = Review::compile();
}
