//! Tool calls: their rounds, and the server's questions between them.
//!
//! Each round is a step of the task: the server's reply is stored before it is processed. A resumed run reads the
//! completed rounds, gets the answers, and continues with the next round.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use hier_agents::{ToolAnswer, ToolCall};
use hier_core::{NodeError, Run};
use rmcp::model::{CallToolRequestParams, CallToolResponse};
use serde::Serialize;
use serde_json::{Map, Value};
use tokio::time::timeout;

use super::answer;
use super::connection::ServerConnection;
use super::content;
use super::mcp_client::McpClient;
use super::question::RequestedInput;
use super::round::{RoundReply, StartedTask};
use crate::error::McpError;

#[derive(Serialize)]
struct CallRound {
    /// The id of the call, so that equal calls of one task differ.
    call: String,
    tool: String,
    args: Value,
    /// The answers to the questions of the previous round.
    responses: BTreeMap<String, Value>,
    /// The request state from the previous round.
    state: Option<String>,
}

impl McpClient {
    pub(super) async fn call_in(&self, call: &ToolCall, run: &Run) -> Result<ToolAnswer, NodeError> {
        let tools = self.catalogue().await.map_err(McpError::into_node_error)?.tools;
        let Some(known) = tools.get(&call.name) else {
            return Ok(ToolAnswer::Refused(format!("the server `{}` has no tool `{}`", self.0.name, call.name)));
        };
        let tool = &known.name;
        let step = format!("mcp {} {tool}", self.0.name);
        let (args, responses) = (known.schema.arguments(&call.args), BTreeMap::new());
        let mut round = CallRound { call: call.id.clone(), tool: tool.clone(), args, responses, state: None };
        for number in 0..self.0.options.rounds {
            let reply =
                Box::pin(run.step_for(&step, &round, async |round| self.make_round(round, run.is_durable()).await))
                    .await?;
            let (requests, state) = match reply {
                RoundReply::Done { content, failed: false } => return Ok(ToolAnswer::Content(content)),
                RoundReply::Done { content, failed: true } => return Ok(ToolAnswer::Refused(content.text())),
                RoundReply::Refused(why) => return Ok(ToolAnswer::Refused(why)),
                RoundReply::Asked { requests, state } => (requests, state),
                RoundReply::Task(task) => return Box::pin(self.follow(&round.tool, &task, run)).await,
            };
            if requests.is_empty() {
                // The server asks the client to retry later.
                tokio::time::sleep(Duration::from_millis(50 << number.min(6))).await;
            }
            round = CallRound { responses: self.answer_questions(&requests, tool, run).await?, state, ..round };
        }
        Err(NodeError::permanent(format!(
            "the MCP server `{}` asked for input {} times during one call of `{tool}`, the limit of `max_rounds`: raise \
             the limit if the server needs more rounds",
            self.0.name, self.0.options.rounds
        )))
    }

    pub(super) async fn answer_questions(
        &self,
        requests: &BTreeMap<String, Value>,
        tool: &str,
        run: &Run,
    ) -> Result<BTreeMap<String, Value>, NodeError> {
        let mut responses = BTreeMap::new();
        for (key, request) in requests {
            let asked = RequestedInput::read(request).map_err(|reason| {
                NodeError::permanent(format!("the MCP server `{}` asked during `{tool}`: {reason}", self.0.name))
            })?;
            let step = format!("mcp {} model {key}", self.0.name);
            let answer = answer::answer_in_run(&self.0.options, &self.0.name, (tool, &step), asked, run).await?;
            responses.insert(key.clone(), answer);
        }
        Ok(responses)
    }

    async fn make_round(&self, round: &CallRound, durable: bool) -> Result<RoundReply, NodeError> {
        let connection = self.connection().await.map_err(McpError::into_node_error)?;
        let (mut made, mut refused) = self.observe_round(&connection, round, durable).await;
        if let Err(error) = &made
            && ((error.is_transient() && !connection.is_open()) || self.reads_tokens_again(error, &connection).await)
        {
            // The server has executed nothing. Its session has ended, or another process may have refreshed the tokens.
            let connection = self.connection().await.map_err(McpError::into_node_error)?;
            (made, refused) = self.observe_round(&connection, round, durable).await;
        }
        match (made, refused) {
            (Ok(RoundReply::Done { failed: true, .. } | RoundReply::Refused(_)) | Err(_), Some(asked)) => {
                Err(NodeError::permanent(format!(
                    "the MCP server `{}` sent `{asked}` in the middle of `{}`, as protocols before 2026-07-28 do, but a durable run \
                     cannot answer it, because another process may resume the run: use a server with protocol 2026-07-28, or call \
                     the tool in a run without a checkpointer",
                    self.0.name, round.tool
                )))
            }
            (Err(McpError::Refused { message, .. }), None) => Ok(RoundReply::Refused(message)),
            (made, _) => made.map_err(McpError::into_node_error),
        }
    }

    /// Sends a round. Also returns the last request of the server that the client refused meanwhile.
    async fn observe_round(
        &self,
        connection: &Arc<ServerConnection>,
        round: &CallRound,
        durable: bool,
    ) -> (Result<RoundReply, McpError>, Option<String>) {
        let refusing = (durable && connection.is_old()).then(|| connection.handler().durable_call());
        let made = self.send_round(connection, round).await;
        (made, refusing.and_then(|call| call.refused()))
    }

    async fn send_round(&self, connection: &Arc<ServerConnection>, round: &CallRound) -> Result<RoundReply, McpError> {
        let (server, request) = (&self.0.name, format!("tools/call {}", round.tool));
        let mut params = CallToolRequestParams::new(round.tool.clone());
        match &round.args {
            Value::Object(args) => params = params.with_arguments(args.clone()),
            Value::Null => params = params.with_arguments(Map::new()),
            _ => return Ok(RoundReply::Refused("the arguments are not a JSON object".to_owned())),
        }
        if !round.responses.is_empty() {
            params = params.with_input_responses(round.responses.clone());
        }
        if let Some(state) = &round.state {
            params = params.with_request_state(state.clone());
        }
        let after = self.0.options.call_timeout;
        // Dropping the request notifies the server.
        let answer = timeout(after, connection.peer().call_tool_once(params)).await;
        let answer = answer.map_err(|_| {
            self.check_later(connection);
            McpError::Timeout { server: server.clone(), request: request.clone(), after }
        })?;
        let bad = |reason: String| McpError::BadAnswer { server: server.clone(), request: request.clone(), reason };
        match answer.map_err(|error| connection.error(error, server, &request))? {
            CallToolResponse::Complete(result) => {
                let (content, failed) = content::of_result(result, &self.0.options);
                Ok(RoundReply::Done { content, failed })
            }
            CallToolResponse::InputRequired(asked) => RoundReply::asked(asked).map_err(bad),
            CallToolResponse::Task(made) => StartedTask::new(made.task).map(RoundReply::Task).map_err(bad),
            _ => Err(bad("the kind of the result is unknown".to_owned())),
        }
    }
}
