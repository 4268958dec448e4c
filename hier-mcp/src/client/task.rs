//! Tasks: calls that a server continues without a connection.
//!
//! The stored reply of the call's round contains the id of the task. Each later wait, until the task ends or asks, is a
//! step, and so is each delivery of answers. A resumed run waits for the same task and never repeats the call.

use std::collections::{BTreeMap, BTreeSet};

use hier_agents::ToolAnswer;
use hier_core::{NodeError, Run};
use rmcp::model::{
    CallToolResult, CancelTaskParams, DetailedTask, GetTaskParams, InputRequests, JsonObject, TaskPayload,
    UpdateTaskParams,
};
use serde::Serialize;
use serde_json::Value;
use tokio::time::{Instant, sleep};

use super::content;
use super::mcp_client::McpClient;
use super::round::{RoundReply, StartedTask, poll_interval, read_requests};
use crate::error::{McpError, clean};

/// The error code of an internal failure of the server, which may still have the task.
const INTERNAL_ERROR: i32 = -32603;

#[derive(Serialize)]
struct TaskWait {
    task: String,
    answered: BTreeSet<String>,
}

#[derive(Serialize)]
struct TaskAnswers {
    task: String,
    responses: BTreeMap<String, Value>,
}

impl McpClient {
    /// Waits for the task of a call, and answers its questions.
    pub(super) async fn follow(&self, tool: &str, task: &StartedTask, run: &Run) -> Result<ToolAnswer, NodeError> {
        let (client, id) = (self.clone(), task.id.clone());
        let cancel = async move { client.cancel(&id).await };
        run.with_cleanup(Box::pin(self.drive_task(tool, task, run)), cancel).await
    }

    async fn drive_task(&self, tool: &str, task: &StartedTask, run: &Run) -> Result<ToolAnswer, NodeError> {
        let name = &self.0.name;
        let (waiting, answering) = (format!("mcp {name} {tool} task"), format!("mcp {name} {tool} answers"));
        let mut wait = TaskWait { task: task.id.clone(), answered: BTreeSet::new() };
        for _ in 0..self.0.options.rounds {
            let reply = run.step_for(&waiting, &wait, async |wait| self.wait(tool, task, &wait.answered).await);
            let requests = match Box::pin(reply).await? {
                RoundReply::Done { content, failed: false } => return Ok(ToolAnswer::Content(content)),
                RoundReply::Done { content, failed: true } => return Ok(ToolAnswer::Refused(content.text())),
                RoundReply::Refused(why) => return Ok(ToolAnswer::Refused(why)),
                RoundReply::Asked { requests, .. } => requests,
                RoundReply::Task(_) => break,
            };
            wait.answered.extend(requests.keys().cloned());
            let responses = self.answer_questions(&requests, tool, run).await?;
            let answers = TaskAnswers { task: task.id.clone(), responses };
            Box::pin(run.step_for(&answering, &answers, async |answers| self.deliver(tool, answers).await)).await?;
        }
        Err(NodeError::permanent(format!(
            "the MCP server `{name}` asked for input {} times during one task of `{tool}`, the limit of `max_rounds`: \
             raise the limit if the server needs more rounds",
            self.0.options.rounds
        )))
    }

    /// Waits until the task ends or asks a new question.
    async fn wait(&self, tool: &str, task: &StartedTask, answered: &BTreeSet<String>) -> Result<RoundReply, NodeError> {
        let limit = self.0.options.task_timeout;
        let begun = Instant::now();
        let (mut interval, mut heard) = (poll_interval(task.poll), begun);
        loop {
            match self.poll(&task.id).await {
                Ok(DetailedTask { task: known, payload, .. }) => {
                    if let Some(reply) = self.reply(tool, payload, answered)? {
                        return Ok(reply);
                    }
                    heard = Instant::now();
                    interval = poll_interval(known.poll_interval_ms);
                }
                Err(error) if is_passing(&error) && heard.elapsed() < self.0.options.call_timeout => {
                    tracing::debug!(server = self.0.name, tool, %error, "failed to read the state of a task; trying again");
                }
                Err(error) => return Err(self.lost(tool, error)),
            }
            if begun.elapsed() >= limit {
                self.cancel(&task.id).await;
                let (server, request) = (self.0.name.clone(), format!("tasks/get of {tool}"));
                return Err(McpError::Timeout { server, request, after: limit }.into_node_error());
            }
            sleep(interval).await;
        }
    }

    async fn poll(&self, id: &str) -> Result<DetailedTask, McpError> {
        let read = self.request("tasks/get", |connection| {
            let params = GetTaskParams::new(id);
            async move { connection.peer().get_task(params).await }
        });
        read.await.map(|read| read.task)
    }

    /// Converts the state of a task to the reply of a round. Returns `None` for a task that continues.
    fn reply(
        &self,
        tool: &str,
        payload: TaskPayload,
        answered: &BTreeSet<String>,
    ) -> Result<Option<RoundReply>, NodeError> {
        let bad = |reason: String| {
            let (server, request) = (self.0.name.clone(), format!("tasks/get of {tool}"));
            McpError::BadAnswer { server, request, reason }.into_node_error()
        };
        match payload {
            TaskPayload::Working => Ok(None),
            TaskPayload::InputRequired { input_requests } => {
                // The server may not have processed an answer yet.
                let open: InputRequests =
                    input_requests.into_iter().filter(|(key, _)| !answered.contains(key)).collect();
                if open.is_empty() {
                    return Ok(None);
                }
                let requests = read_requests(open).map_err(bad)?;
                Ok(Some(RoundReply::Asked { requests, state: None }))
            }
            TaskPayload::Completed { result } => {
                let result: CallToolResult =
                    serde_json::from_value(Value::Object(result)).map_err(|error| bad(clean(&error.to_string())))?;
                let (content, failed) = content::of_result(result, &self.0.options);
                Ok(Some(RoundReply::Done { content, failed }))
            }
            TaskPayload::Failed { error } => Ok(Some(RoundReply::Refused(message(&error)))),
            TaskPayload::Cancelled => Ok(Some(RoundReply::Refused("the server cancelled the call".to_owned()))),
            _ => Err(bad("the status of the task is unknown".to_owned())),
        }
    }

    /// Sends answers. The server ignores answers that it already has.
    async fn deliver(&self, tool: &str, answers: &TaskAnswers) -> Result<(), NodeError> {
        let sent = self.request("tasks/update", |connection| {
            let params = UpdateTaskParams::new(answers.task.clone(), answers.responses.clone());
            async move { connection.peer().update_task(params).await }
        });
        sent.await.map_err(|error| self.lost(tool, error))
    }

    /// Converts the error of a request for a task.
    fn lost(&self, tool: &str, error: McpError) -> NodeError {
        match error {
            McpError::Refused { message, .. } => NodeError::permanent(format!(
                "the MCP server `{}` no longer has the task of `{tool}`: {message}; the task may have had effects, so hier \
                 does not repeat the call",
                self.0.name
            )),
            error => error.into_node_error(),
        }
    }

    /// Asks the server to cancel a task. Sends nothing if the server was a program that has ended, because its tasks
    /// have ended with it.
    async fn cancel(&self, id: &str) {
        if self.0.location.is_program() && self.open_connection().await.is_none() {
            return;
        }
        let cancelled = self.request("tasks/cancel", |connection| {
            let params = CancelTaskParams::new(id);
            async move { connection.peer().cancel_task(params).await }
        });
        if let Err(error) = cancelled.await {
            tracing::warn!(server = self.0.name, %error, "failed to cancel a task: the server continues it");
        }
    }
}

/// Returns true if the task may continue despite the error.
fn is_passing(error: &McpError) -> bool {
    match error {
        McpError::Connect { .. } | McpError::Ended { .. } | McpError::Timeout { .. } => true,
        McpError::Refused { code, .. } => *code == INTERNAL_ERROR,
        _ => false,
    }
}

fn message(error: &JsonObject) -> String {
    clean(error.get("message").and_then(Value::as_str).unwrap_or("the call failed"))
}
