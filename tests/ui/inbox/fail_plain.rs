// Several messages may come at once, and the channel holds one value.

use hier_agents::prelude::*;

#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
struct Desk {
    #[reducer(append)]
    notes: Vec<String>,
    last: String,
}

graph! {
    Notes<Desk> = Graph {
        nodes: [work],
        edges: [START >> work >> END],
        inbox: last,
    }
}

async fn work(state: &Desk) -> DeskUpdate {
    Desk::update().last(state.notes.concat())
}

fn main() {
    let _ = Notes::compile();
}
