// A command with a target is created with `Command::to`, or with `goto` of an existing command.

use hier_agents::prelude::*;

#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
struct Filing {
    accepted: bool,
}

graph! {
    Review<Filing> = Graph {
        nodes: [assess { goto: [archive, END] }, archive],
        edges: [START >> assess, archive >> END],
    }
}

async fn assess(state: &Filing) -> Command<Filing> {
    if state.accepted { Command::to(END) } else { Command::new().goto(Review::archive) }
}

async fn archive() {}

fn main() {
    let _ = Review::compile();
}
