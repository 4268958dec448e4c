//! The client, with servers that are programs and servers over HTTP.

mod http;
mod odd;
mod old;
mod rounds;
mod stdio;
mod task_ends;
mod tasks;

use std::path::{Path, PathBuf};

use hier_agents::prelude::*;
use hier_mcp::{McpClient, McpClientBuilder};
use hier_mcp_tests::agent::{Helper, answers, desk};
use serde_json::Value;

/// A folder with the file of the counts.
struct Counts(tempfile::TempDir);

impl Counts {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn path(&self) -> PathBuf {
        self.0.path().join("counts")
    }

    fn folder(&self) -> &Path {
        self.0.path()
    }

    /// Returns the actions of the peer, except lists.
    fn done(&self) -> Vec<String> {
        self.all().into_iter().filter(|line| line != "list").collect()
    }

    fn all(&self) -> Vec<String> {
        let text = std::fs::read_to_string(self.path()).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }

    /// Waits until the peer has done this.
    async fn wait_for(&self, what: &str) {
        while !self.all().iter().any(|line| line == what) {
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
    }
}

fn peer(counts: &Counts) -> McpClientBuilder {
    hier_mcp_tests::agent::peer(env!("CARGO_BIN_EXE_peer"), &counts.path())
}

/// Returns the result of one tool call in a run without a checkpointer.
async fn called(client: &McpClient, tool: &str, args: Value) -> std::result::Result<String, RunError> {
    let context = desk(client, [Message::call(tool, args), Message::assistant("Done.")]);
    let out = Helper::compile().invoke(Message::user("Go.")).context(context).await?;
    Ok(answers(&out).remove(0))
}
