//! A node that calls tools has no search for them.

use hier_agents::prelude::*;
use hier_core::state::wants_tools;

/// Looks.
#[tool]
async fn look() -> bool {
    true
}

graph! {
    Support<MessagesState, BaseContext> = Graph {
        nodes: [think, act = tools![look] { search: true }],
        edges: [START >> think >> if wants_tools { act } else { END }, act >> think],
    }
}

async fn think(state: &MessagesState, run: &Run<BaseContext>) -> hier_core::Result<MessagesStateUpdate> {
    let answer = run.model()?.ask(state.messages()).tools(tools![look]).await?;
    Ok(MessagesState::update().messages(answer.message))
}

fn main() {
    let _ = Support::compile();
}
