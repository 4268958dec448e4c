//! An agent with the peer's tools.

use std::path::Path;

use hier_agents::prelude::*;
use hier_mcp::{McpClient, McpClientBuilder};
use hier_testkit::ScriptedModel;

/// The run context of the agent.
#[derive(Clone, Debug)]
pub struct Desk {
    /// The base context, which holds the model.
    pub base: BaseContext,
    /// The client of the peer.
    pub peer: McpClient,
}

impl AsRef<BaseContext> for Desk {
    fn as_ref(&self) -> &BaseContext {
        &self.base
    }
}

graph! {
    /// Answers with the help of the peer.
    pub Helper<BaseState, Desk> = Agent { tools: [|desk| &desk.peer] }
}

/// Returns a client builder that starts the peer as a program. The peer logs each action to the file `counts`.
pub fn peer(program: &str, counts: &Path) -> McpClientBuilder {
    McpClient::stdio("peer", program).env("PEER_COUNTS", counts.display().to_string())
}

/// Creates a desk whose model gives these answers in order.
pub fn desk(peer: &McpClient, answers: impl IntoIterator<Item = Message>) -> Desk {
    Desk { base: BaseContext::new(ScriptedModel::new(answers)), peer: peer.clone() }
}

/// Returns the texts of all tool messages.
pub fn answers(out: &Outcome<BaseState>) -> Vec<String> {
    let said = out.state().messages.iter().filter(|message| message.tool_call_id().is_some());
    said.map(Message::text).collect()
}
