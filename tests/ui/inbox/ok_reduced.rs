// Messages from outside are written to a channel with a reducer.

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
        inbox: notes,
    }
}

async fn work(state: &Desk) -> DeskUpdate {
    Desk::update().last(state.notes.concat())
}

fn main() {
    let _ = Notes::compile();
}
