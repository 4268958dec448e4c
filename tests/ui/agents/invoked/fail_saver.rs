//! Opening a saver needs `.await`.

use hier_agents::prelude::*;

graph! {
    Chat<BaseState> = Agent { system: "You are brief." }
}

async fn open() -> MemorySaver {
    MemorySaver::new()
}

async fn keeps() {
    let _ = Chat::compile().checkpointer(open());
}

fn main() {}
