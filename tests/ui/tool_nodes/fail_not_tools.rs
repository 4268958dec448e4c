//! A node calls tools, each with a separate name, over a state with a conversation, in a context that fits them.

use hier_agents::prelude::*;

#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
struct Chat {
    #[reducer(messages)]
    messages: Messages,
}

#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
struct Silent {
    note: String,
}

struct Desk;

/// Beats.
#[tool]
async fn beat(run: &Run<Desk>) -> bool {
    run.heartbeat();
    true
}

/// Looks.
#[tool]
async fn look() -> bool {
    true
}

graph! {
    NoConversation<Silent, Desk> = Graph { nodes: [act = tools![beat]], edges: [START >> act >> END] }
}

graph! {
    OtherContext<Chat> = Graph { nodes: [act = tools![beat]], edges: [START >> act >> END] }
}

graph! {
    Twice<Chat, Desk> = Graph { nodes: [act = tools![beat, beat]], edges: [START >> act >> END] }
}

fn main() {
    let _ = (NoConversation::compile(), OtherContext::compile(), Twice::compile());
}
