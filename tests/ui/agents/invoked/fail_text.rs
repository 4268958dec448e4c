//! An agent takes a message or an update of its state, not a bare text.

use hier_agents::prelude::*;

graph! {
    Chat<BaseState> = Agent { system: "You are brief." }
}

async fn said(context: BaseContext) {
    let _ = Chat::compile().invoke("Hello?").context(context);
}

fn main() {}
