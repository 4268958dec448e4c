//! The commands of the v3 event protocol.

use std::collections::HashSet;

use axum::Json;
use axum::extract::Path;
use axum::http::StatusCode;
use hier_core::checkpoint::Checkpointer;
use hier_core::runs::{OnDisconnect, Request, Run, ThreadIs, ThreadRow, ThreadStatus};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value, json};
use uuid::Uuid;

use super::filter::EventFilter;
use super::translate::RECORDED;
use crate::app::Caller;
use crate::auth::Action;
use crate::body::{JsonBody, from_value, id};
use crate::error::{ApiError, ApiResult};
use crate::routes::inbox;
use crate::routes::run_plan::{Recording, RunPlan};
use crate::wire::run::{CommandBody, IfNotExists, RunCreate};

/// The error of a command: a code that the protocol defines, and a text.
pub(crate) struct CommandError(&'static str, String);

impl From<ApiError> for CommandError {
    fn from(error: ApiError) -> Self {
        Self("unknown_error", error.to_string())
    }
}

fn invalid(text: impl Into<String>) -> CommandError {
    CommandError("invalid_argument", text.into())
}

/// The response to a command.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
#[schemars(rename = "CommandAnswer")]
pub(crate) enum CommandAnswer {
    Success {
        /// The id of the command.
        id: Value,
        /// The result of the command.
        result: Value,
        meta: CommandMeta,
    },
    /// The command was refused.
    Error {
        /// The id of the command.
        id: Value,
        /// A code that the protocol defines.
        error: &'static str,
        message: String,
    },
}

/// The position of the stream when a command was executed.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "CommandMeta")]
pub(crate) struct CommandMeta {
    applied_through_seq: u64,
}

pub(crate) async fn post(
    caller: Caller,
    Path(thread): Path<String>,
    JsonBody(command): JsonBody<Value>,
) -> ApiResult<Json<CommandAnswer>> {
    let thread = id("thread", &thread)?.to_string();
    Ok(Json(answer(&caller, &thread, &command, 0).await))
}

/// Executes a command. On a WebSocket, the connection itself executes the commands about its subscriptions.
pub(crate) async fn answer(caller: &Caller, thread: &str, command: &Value, applied: u64) -> CommandAnswer {
    let number = command.get("id").cloned().unwrap_or_default();
    match execute(caller, thread, command).await {
        Ok(result) => success(number, result, applied),
        Err(CommandError(code, message)) => CommandAnswer::Error { id: number, error: code, message },
    }
}

pub(crate) fn success(id: Value, result: Value, applied: u64) -> CommandAnswer {
    CommandAnswer::Success { id, result, meta: CommandMeta { applied_through_seq: applied } }
}

async fn execute(caller: &Caller, thread: &str, command: &Value) -> Result<Value, CommandError> {
    let method = command.get("method").and_then(Value::as_str).ok_or_else(|| invalid("method is required."))?;
    let nothing = json!({});
    let params = command.get("params").unwrap_or(&nothing);
    match method {
        "run.start" => start(caller, thread, params).await,
        "input.respond" => respond(caller, thread, params).await,
        "agent.getTree" => tree(caller, thread).await,
        "state.get" => state(caller, thread, params).await,
        "state.listCheckpoints" => checkpoints(caller, thread, params).await,
        "state.fork" => fork(caller, thread, params).await,
        "input.inject" => inject(caller, thread, params).await,
        "subscription.subscribe" | "subscription.reconnect" => {
            EventFilter::parse(params).map_err(invalid)?;
            Ok(json!({ "subscription_id": Uuid::new_v4(), "replayed_events": 0 }))
        }
        "subscription.unsubscribe" => Ok(json!({})),
        other => Err(CommandError("unknown_command", format!("Unknown protocol command: {other}"))),
    }
}

/// Returns the thread. Returns `None` if it does not exist, or if the caller may not carry out this action on it.
async fn find_thread(caller: &Caller, thread: &str, action: Action) -> Result<Option<ThreadRow>, CommandError> {
    match caller.thread(thread, action).await {
        Ok(row) => Ok(Some(row)),
        Err(error) if error.status == StatusCode::NOT_FOUND => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Adds a run that records all events of the protocol.
async fn add_run(caller: &Caller, thread: &str, body: &RunCreate) -> ApiResult<Run> {
    let recording = Recording { modes: RECORDED.to_vec(), subgraphs: true };
    RunPlan::recording(thread, body, recording).start(caller).await
}

async fn start(caller: &Caller, thread: &str, params: &Value) -> Result<Value, CommandError> {
    if params.get("assistant_id").and_then(Value::as_str).is_none_or(str::is_empty) {
        return Err(invalid("run.start requires an assistant_id."));
    }
    let mut params = params.clone();
    if let Some(fields) = params.as_object_mut()
        && let Some(strategy) = fields.remove("multitaskStrategy")
    {
        fields.entry("multitask_strategy").or_insert(strategy);
    }
    let mut body: RunCreate = from_value(params).map_err(|error| invalid(error.detail))?;
    let known = find_thread(caller, thread, Action::CreateRun).await?;
    // An input for a thread that waits for an answer is the answer.
    let waits = known.is_some_and(|row| row.status == ThreadStatus::Interrupted && !row.interrupts.is_empty());
    let answers = waits && body.command.is_none() && body.input.as_ref().is_some_and(|input| !input.is_null());
    if answers {
        body.command = Some(CommandBody { resume: body.input.take(), ..CommandBody::default() });
    }
    body.if_not_exists = Some(IfNotExists::Create);
    let run = add_run(caller, thread, &body).await.map_err(|error| match error.status {
        StatusCode::CONFLICT if answers => CommandError("no_such_interrupt", error.detail),
        _ => error.into(),
    })?;
    Ok(json!({ "run_id": run.id }))
}

/// Reads the answers of a command, by the ids of their questions.
fn responses(params: &Value) -> Result<Map<String, Value>, CommandError> {
    let many = params.get("responses").and_then(Value::as_array);
    let entries: Vec<&Value> = many.map_or_else(|| vec![params], |many| many.iter().collect());
    let mut answers = Map::new();
    for entry in entries {
        let id = entry.get("interrupt_id").and_then(Value::as_str);
        let id = id.ok_or_else(|| invalid("input.respond requires an interrupt_id."))?;
        if answers.insert(id.to_owned(), entry.get("response").cloned().unwrap_or_default()).is_some() {
            return Err(invalid(format!("input.respond has two responses to the interrupt {id}.")));
        }
    }
    if answers.is_empty() {
        return Err(invalid("input.respond requires a response: `responses` is empty."));
    }
    Ok(answers)
}

async fn respond(caller: &Caller, thread: &str, params: &Value) -> Result<Value, CommandError> {
    let answers = responses(params)?;
    let known = asking_thread(caller, thread, &answers).await?;
    let assistant =
        known.metadata.get("assistant_id").or_else(|| known.metadata.get("graph_id")).and_then(Value::as_str);
    let assistant =
        assistant.ok_or_else(|| CommandError("no_such_run", "No run has asked on this thread.".to_owned()))?;
    let body = json!({
        "assistant_id": assistant,
        "command": {
            "resume": &answers, "update": params.get("update"), "goto": params.get("goto"),
        },
        "config": params.get("config"),
        "metadata": params.get("metadata"),
    });
    let body: RunCreate = from_value(body).map_err(|error| invalid(error.detail))?;
    let Err(error) = add_run(caller, thread, &body).await else { return Ok(json!({})) };
    // Another client may have answered in the meantime.
    asking_thread(caller, thread, &answers).await?;
    Err(match error.status {
        StatusCode::CONFLICT => CommandError("no_such_interrupt", error.detail),
        StatusCode::UNPROCESSABLE_ENTITY => invalid(error.detail),
        _ => error.into(),
    })
}

/// Returns the thread if it waits for all of these answers.
async fn asking_thread(caller: &Caller, thread: &str, answers: &Map<String, Value>) -> Result<ThreadRow, CommandError> {
    let known = find_thread(caller, thread, Action::CreateRun).await?;
    let asked = known.iter().flat_map(|row| row.interrupts.values()).filter_map(Value::as_array).flatten();
    let open: HashSet<&str> = asked.filter_map(|asked| asked.get("id")?.as_str()).collect();
    match (answers.keys().find(|id| !open.contains(&***id)), known) {
        (None, Some(row)) => Ok(row),
        (unknown, _) => {
            let id = unknown.map_or("", String::as_str);
            Err(CommandError("no_such_interrupt", format!("Unknown or already-consumed interrupt: {id}")))
        }
    }
}

/// Sends a message to the run that is in progress on the thread.
async fn inject(caller: &Caller, thread: &str, params: &Value) -> Result<Value, CommandError> {
    let message = params.get("message").cloned().ok_or_else(|| invalid("input.inject requires a message."))?;
    let known = find_thread(caller, thread, Action::CreateRun).await?.ok_or_else(no_active_run)?;
    let run = inbox::in_progress(caller, &known.id).await?.ok_or_else(no_active_run)?;
    let graph = caller.app.graph(&run.graph)?;
    let inbox = graph.graph.inbox().unwrap_or("messages");
    let messages = if message.is_array() { message } else { json!([message]) };
    let request = Request::input(json!({ inbox: messages }));
    match inbox::inject(caller, &known.id, ThreadIs::this(&known), &request, OnDisconnect::Continue).await {
        Ok(Some(_)) => Ok(json!({})),
        Ok(None) => Err(no_active_run()),
        Err(error) if error.status == StatusCode::UNPROCESSABLE_ENTITY => {
            Err(CommandError("not_supported", error.detail))
        }
        Err(error) => Err(error.into()),
    }
}

fn no_active_run() -> CommandError {
    CommandError("no_such_run", "No active run is bound to this thread.".to_owned())
}

/// Lists the checkpoints of a thread, newest first.
async fn checkpoints(caller: &Caller, thread: &str, params: &Value) -> Result<Value, CommandError> {
    if find_thread(caller, thread, Action::Read).await?.is_none() {
        return Ok(json!({ "checkpoints": [] }));
    }
    let summary = |state: &Value| {
        json!({
            "id": state["checkpoint"]["checkpoint_id"],
            "timestamp": state["created_at"],
            "step": state["metadata"]["step"],
            "metadata": state["metadata"],
        })
    };
    match crate::routes::states::past(caller, thread, params, summary).await {
        Ok(checkpoints) => Ok(json!({ "checkpoints": checkpoints })),
        Err(error) if error.status == StatusCode::UNPROCESSABLE_ENTITY => Err(invalid(error.detail)),
        Err(error) => Err(error.into()),
    }
}

/// Starts a run from an earlier checkpoint.
async fn fork(caller: &Caller, thread: &str, params: &Value) -> Result<Value, CommandError> {
    let id = params.get("checkpoint_id").and_then(Value::as_str).and_then(|id| Uuid::try_parse(id).ok());
    let id = id.ok_or_else(|| invalid("state.fork requires a checkpoint_id, which is a UUID."))?;
    let missing = || CommandError("no_such_checkpoint", format!("Unknown checkpoint: {id}"));
    let known = find_thread(caller, thread, Action::CreateRun).await?.ok_or_else(missing)?;
    let found = caller.app.runs.get(&known.id, "", Some(id)).await;
    found.map_err(|error| CommandError::from(crate::fault::saver(&error)))?.ok_or_else(missing)?;
    let assistant =
        known.metadata.get("assistant_id").or_else(|| known.metadata.get("graph_id")).and_then(Value::as_str);
    let body = json!({
        "assistant_id": assistant,
        "input": params.get("input"),
        "config": params.get("config"),
        "checkpoint_id": id,
    });
    let body: RunCreate = from_value(body).map_err(|error| invalid(error.detail))?;
    let run = add_run(caller, thread, &body).await?;
    Ok(json!({ "run_id": run.id, "thread_id": run.thread }))
}

async fn tree(caller: &Caller, thread: &str) -> Result<Value, CommandError> {
    let known = find_thread(caller, thread, Action::Read).await?.ok_or_else(no_active_run)?;
    let run = inbox::in_progress(caller, &known.id).await?.ok_or_else(no_active_run)?;
    Ok(json!({ "tree": { "namespace": [], "graph_name": run.graph, "status": "running", "children": [] } }))
}

async fn state(caller: &Caller, thread: &str, params: &Value) -> Result<Value, CommandError> {
    let namespace: Vec<String> = match params.get("namespace").filter(|namespace| !namespace.is_null()) {
        None => Vec::new(),
        Some(list) => {
            serde_json::from_value(list.clone()).map_err(|_| invalid("namespace must be an array of strings"))?
        }
    };
    let state = crate::routes::states::at(caller, thread, &namespace.join("|")).await?;
    Ok(json!({ "values": state.values, "checkpoint": state.checkpoint, "next": state.next, "tasks": state.tasks }))
}
