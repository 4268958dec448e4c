//! An agent with the peer's tools.

use std::path::Path;

use hier_agents::prelude::*;
use hier_mcp::{McpClient, McpClientBuilder};
use hier_testkit::ScriptedModel;

/// What the agent has.
#[derive(Clone, Debug)]
pub struct Desk {
    /// The model.
    pub base: BaseContext,
    /// The peer.
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

/// The peer as a program, which counts in this file.
pub fn peer(program: &str, counts: &Path) -> McpClientBuilder {
    McpClient::stdio("peer", program).env("PEER_COUNTS", counts.display().to_string())
}

/// A desk whose model says this.
pub fn desk(peer: &McpClient, answers: impl IntoIterator<Item = Message>) -> Desk {
    Desk { base: BaseContext::new(ScriptedModel::new(answers)), peer: peer.clone() }
}

/// What the tools answered.
pub fn answers(out: &Outcome<BaseState>) -> Vec<String> {
    let said = out.state().messages.iter().filter(|message| message.tool_call_id().is_some());
    said.map(Message::text).collect()
}
