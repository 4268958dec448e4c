//! A call of a tool: its rounds, with what the server asks between them.
//!
//! Each round is a step of the task: what the server answered is stored before it is acted on. A run that goes on reads the rounds that
//! are done, gets the answers that were given, and makes the next round.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use hier_agents::{Content, ToolAnswer, ToolCall};
use hier_core::{NodeError, Run};
use rmcp::model::{CallToolRequestParams, CallToolResponse, InputRequiredResult};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use tokio::time::timeout;

use super::answer;
use super::connection::Client;
use super::content;
use super::link::Link;
use super::question::Asked;
use crate::error::McpError;

/// How much a server may give to go on with, in bytes: it is stored with the task.
const LARGEST_STATE: usize = 256 * 1024;

/// How many questions a server may ask in one round.
const MOST_QUESTIONS: usize = 32;

/// What a round sends.
#[derive(Serialize)]
struct Round {
    /// The call, so that two of one task are two.
    call: String,
    tool: String,
    args: Value,
    /// The answers to what was asked in the round before.
    responses: BTreeMap<String, Value>,
    /// What the server gave to go on with.
    state: Option<String>,
}

/// What came of a round, as it is stored.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Reply {
    Done {
        content: Content,
        failed: bool,
    },
    /// The server has questions: requests by the server's keys.
    Asked {
        requests: BTreeMap<String, Value>,
        state: Option<String>,
    },
    /// The server refused the request, which the model may mend.
    Refused(String),
}

impl Client {
    pub(super) async fn call_in(&self, call: &ToolCall, run: &Run) -> Result<ToolAnswer, NodeError> {
        let tools = self.catalogue().await.map_err(McpError::into_node_error)?.tools;
        let Some(known) = tools.get(&call.name) else {
            return Ok(ToolAnswer::Refused(format!("the server `{}` has no tool `{}`", self.0.name, call.name)));
        };
        let tool = &known.name;
        let step = format!("mcp {} {tool}", self.0.name);
        let (args, responses) = (known.shape.arguments(&call.args), BTreeMap::new());
        let mut round = Round { call: call.id.clone(), tool: tool.clone(), args, responses, state: None };
        for number in 0..self.0.options.rounds {
            let reply =
                Box::pin(run.step_for(&step, &round, async |round| self.round(round, run.is_durable()).await)).await?;
            let (requests, state) = match reply {
                Reply::Done { content, failed: false } => return Ok(ToolAnswer::Content(content)),
                Reply::Done { content, failed: true } => return Ok(ToolAnswer::Refused(content.text())),
                Reply::Refused(why) => return Ok(ToolAnswer::Refused(why)),
                Reply::Asked { requests, state } => (requests, state),
            };
            if requests.is_empty() {
                // It wants to be asked again later.
                tokio::time::sleep(Duration::from_millis(50 << number.min(6))).await;
            }
            round = Round { responses: self.answered(&requests, tool, run).await?, state, ..round };
        }
        Err(NodeError::permanent(format!(
            "the MCP server `{}` asked {} times during one call of `{tool}`, and is not answered any more",
            self.0.name, self.0.options.rounds
        )))
    }

    /// The answers to all questions of a round, one after the other.
    async fn answered(
        &self,
        requests: &BTreeMap<String, Value>,
        tool: &str,
        run: &Run,
    ) -> Result<BTreeMap<String, Value>, NodeError> {
        let mut responses = BTreeMap::new();
        for (key, request) in requests {
            let asked = Asked::read(request).map_err(|reason| {
                NodeError::permanent(format!("the MCP server `{}` asked during `{tool}`: {reason}", self.0.name))
            })?;
            let step = format!("mcp {} model {key}", self.0.name);
            let answer = answer::in_run(&self.0.options, &self.0.name, (tool, &step), asked, run).await?;
            responses.insert(key.clone(), answer);
        }
        Ok(responses)
    }

    /// Makes one round.
    async fn round(&self, round: &Round, durable: bool) -> Result<Reply, NodeError> {
        let link = self.link().await.map_err(McpError::into_node_error)?;
        let refusing = (durable && link.is_old()).then(|| link.handler().durable_call());
        let made = self.made_round(&link, round).await;
        let refused = refusing.and_then(|call| call.refused());
        match (made, refused) {
            (Ok(Reply::Done { failed: true, .. } | Reply::Refused(_)) | Err(_), Some(asked)) => {
                Err(NodeError::permanent(format!(
                    "the MCP server `{}` asked `{asked}` in the middle of `{}`, as protocols before 2026-07-28 do. A durable run \
                     cannot answer that: it may go on in another process. Use a server that speaks 2026-07-28, or call the tool in a \
                     run without a checkpointer",
                    self.0.name, round.tool
                )))
            }
            (Err(McpError::Refused { message, .. }), None) => Ok(Reply::Refused(message)),
            (made, _) => made.map_err(McpError::into_node_error),
        }
    }

    async fn made_round(&self, link: &Arc<Link>, round: &Round) -> Result<Reply, McpError> {
        let (server, request) = (&self.0.name, format!("tools/call {}", round.tool));
        let mut params = CallToolRequestParams::new(round.tool.clone());
        match &round.args {
            Value::Object(args) => params = params.with_arguments(args.clone()),
            Value::Null => params = params.with_arguments(Map::new()),
            _ => return Ok(Reply::Refused("the arguments are no object".to_owned())),
        }
        if !round.responses.is_empty() {
            params = params.with_input_responses(round.responses.clone());
        }
        if let Some(state) = &round.state {
            params = params.with_request_state(state.clone());
        }
        let after = self.0.options.call_timeout;
        // Dropped, it tells the server that nobody waits any more.
        let answer = timeout(after, link.peer().call_tool_once(params)).await;
        let answer =
            answer.map_err(|_| McpError::Timeout { server: server.clone(), request: request.clone(), after })?;
        let bad = |reason: String| McpError::BadAnswer { server: server.clone(), request: request.clone(), reason };
        match answer.map_err(|error| McpError::of(error, server, &request, || link.said()))? {
            CallToolResponse::Complete(result) => {
                let (content, failed) = content::of_result(result, &self.0.options);
                Ok(Reply::Done { content, failed })
            }
            CallToolResponse::InputRequired(asked) => read(asked).map_err(bad),
            CallToolResponse::Task(_) => Err(bad("it is a task, which was not offered".to_owned())),
            _ => Err(bad("it is of a kind that is not known here".to_owned())),
        }
    }
}

/// What a server asks, within bounds.
fn read(asked: InputRequiredResult) -> Result<Reply, String> {
    let requests = asked.input_requests.unwrap_or_default();
    if requests.len() > MOST_QUESTIONS {
        return Err(format!("it asks {} things at once, and {MOST_QUESTIONS} are the most", requests.len()));
    }
    if asked.request_state.as_ref().is_some_and(|state| state.len() > LARGEST_STATE) {
        return Err(format!("its state has more than {LARGEST_STATE} bytes"));
    }
    let mut read = BTreeMap::new();
    for (key, request) in requests {
        let request = serde_json::to_value(request).map_err(|error| error.to_string())?;
        Asked::read(&request)?;
        read.insert(key, request);
    }
    Ok(Reply::Asked { requests: read, state: asked.request_state })
}
