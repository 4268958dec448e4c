//! Commands to a thread.

use axum::Json;
use axum::extract::Path;
use axum::http::StatusCode;
use hier_core::checkpoint::Checkpointer;
use hier_core::runs::{Request, Run, RunQuery, ThreadIs, ThreadRow, ThreadStatus};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value, json};
use uuid::Uuid;

use super::filter::Filter;
use super::translate::RECORDED;
use crate::app::Caller;
use crate::auth::Action;
use crate::body::{Body, from_value, id};
use crate::error::{ApiError, ApiResult};
use crate::fault::refused;
use crate::routes::mail;
use crate::routes::runs::{Kept, add_keeping};
use crate::wire::run::{CommandBody, IfNotExists, RunCreate};

/// Why a command is refused: a code of the protocol, and a text.
pub(crate) struct Refused(&'static str, String);

impl From<ApiError> for Refused {
    fn from(error: ApiError) -> Self {
        Self("unknown_error", error.to_string())
    }
}

fn invalid(text: impl Into<String>) -> Refused {
    Refused("invalid_argument", text.into())
}

/// The answer to a command.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
#[schemars(rename = "CommandAnswer")]
pub(crate) enum Answer {
    /// It was done.
    Success {
        /// That of the command.
        id: Value,
        /// What the command returns.
        result: Value,
        meta: Meta,
    },
    /// It was refused.
    Error {
        /// That of the command.
        id: Value,
        /// A code of the protocol.
        error: &'static str,
        message: String,
    },
}

/// Where the stream was when a command was done.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "CommandMeta")]
pub(crate) struct Meta {
    applied_through_seq: u64,
}

pub(crate) async fn post(
    caller: Caller,
    Path(thread): Path<String>,
    Body(command): Body<Value>,
) -> ApiResult<Json<Answer>> {
    let thread = id("thread", &thread)?.to_string();
    Ok(Json(answer(&caller, &thread, &command, 0).await))
}

/// The answer to a command. Those that belong to a connection are the connection's.
pub(crate) async fn answer(caller: &Caller, thread: &str, command: &Value, applied: u64) -> Answer {
    let number = command.get("id").cloned().unwrap_or_default();
    match done(caller, thread, command).await {
        Ok(result) => success(number, result, applied),
        Err(Refused(code, message)) => Answer::Error { id: number, error: code, message },
    }
}

/// The answer to a command that was done.
pub(crate) fn success(id: Value, result: Value, applied: u64) -> Answer {
    Answer::Success { id, result, meta: Meta { applied_through_seq: applied } }
}

async fn done(caller: &Caller, thread: &str, command: &Value) -> Result<Value, Refused> {
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
            Filter::parse(params).map_err(invalid)?;
            Ok(json!({ "subscription_id": Uuid::new_v4(), "replayed_events": 0 }))
        }
        "subscription.unsubscribe" => Ok(json!({})),
        other => Err(Refused("unknown_command", format!("Unknown protocol command: {other}"))),
    }
}

/// The thread; none if there is none that the caller may do this to: another user's thread looks absent.
async fn row(caller: &Caller, thread: &str, action: Action) -> Result<Option<ThreadRow>, Refused> {
    match caller.thread(thread, action).await {
        Ok(row) => Ok(Some(row)),
        Err(error) if error.status == StatusCode::NOT_FOUND => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Adds a run of which everything is kept that the protocol tells.
async fn add(caller: &Caller, thread: &str, mut body: RunCreate) -> Result<Run, Refused> {
    body.if_not_exists = Some(IfNotExists::Create);
    let kept = Kept { modes: RECORDED.to_vec(), subgraphs: true };
    Ok(add_keeping(caller, Some(thread), body, kept, false).await?)
}

async fn start(caller: &Caller, thread: &str, params: &Value) -> Result<Value, Refused> {
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
    let known = row(caller, thread, Action::CreateRun).await?;
    // What is given to a thread that waits for an answer is the answer.
    let waits = known.is_some_and(|row| row.status == ThreadStatus::Interrupted && !row.interrupts.is_empty());
    if waits && body.command.is_none() && body.input.as_ref().is_some_and(|input| !input.is_null()) {
        body.command = Some(CommandBody { resume: body.input.take(), ..CommandBody::default() });
    }
    let run = add(caller, thread, body).await?;
    Ok(json!({ "run_id": run.id }))
}

/// The answers of a command, by the ids of their questions.
fn responses(params: &Value) -> Result<Map<String, Value>, Refused> {
    let many = params.get("responses").and_then(Value::as_array);
    let entries: Vec<&Value> = many.map_or_else(|| vec![params], |many| many.iter().collect());
    let mut answers = Map::new();
    for entry in entries {
        let id = entry.get("interrupt_id").and_then(Value::as_str);
        let id = id.ok_or_else(|| invalid("input.respond requires an interrupt_id."))?;
        answers.insert(id.to_owned(), entry.get("response").cloned().unwrap_or_default());
    }
    Ok(answers)
}

async fn respond(caller: &Caller, thread: &str, params: &Value) -> Result<Value, Refused> {
    let answers = responses(params)?;
    let known = row(caller, thread, Action::CreateRun).await?;
    let missing = |id: &str| Refused("no_such_interrupt", format!("Unknown or already-consumed interrupt: {id}"));
    let first = answers.keys().next().cloned().unwrap_or_default();
    let known = known.ok_or_else(|| missing(&first))?;
    let open = |id: &str| {
        let listed = known.interrupts.values().filter_map(Value::as_array).flatten();
        listed.into_iter().any(|asked| asked.get("id").and_then(Value::as_str) == Some(id))
    };
    if let Some(unknown) = answers.keys().find(|id| !open(id)) {
        return Err(missing(unknown));
    }
    let assistant =
        known.metadata.get("assistant_id").or_else(|| known.metadata.get("graph_id")).and_then(Value::as_str);
    let assistant = assistant.ok_or_else(|| Refused("no_such_run", "No run has asked on this thread.".to_owned()))?;
    let body = json!({
        "assistant_id": assistant,
        "command": {
            "resume": answers, "update": params.get("update"), "goto": params.get("goto"),
        },
        "config": params.get("config"),
        "metadata": params.get("metadata"),
    });
    let body: RunCreate = from_value(body).map_err(|error| invalid(error.detail))?;
    add(caller, thread, body).await?;
    Ok(json!({}))
}

/// Gives a message to the run that is running.
async fn inject(caller: &Caller, thread: &str, params: &Value) -> Result<Value, Refused> {
    let message = params.get("message").cloned().ok_or_else(|| invalid("input.inject requires a message."))?;
    let idle = || Refused("no_such_run", "No active run is bound to this thread.".to_owned());
    let known = row(caller, thread, Action::CreateRun).await?.ok_or_else(idle)?;
    let live = caller.app.runs.runs(RunQuery::thread(known.id.clone()).live()).await.map_err(refused)?;
    let graph = live.last().map(|run| run.graph.clone()).ok_or_else(idle)?;
    let graph = caller.app.graph(&graph)?;
    let inbox = graph.graph.inbox().unwrap_or("messages");
    let messages = if message.is_array() { message } else { json!([message]) };
    let request = Request::input(json!({ inbox: messages }));
    match mail::inject(caller, &known.id, ThreadIs::this(&known), &request).await {
        Ok(Some(_)) => Ok(json!({})),
        Ok(None) => Err(idle()),
        Err(error) if error.status == StatusCode::UNPROCESSABLE_ENTITY => Err(Refused("not_supported", error.detail)),
        Err(error) => Err(error.into()),
    }
}

/// The checkpoints of a thread, the newest first.
async fn checkpoints(caller: &Caller, thread: &str, params: &Value) -> Result<Value, Refused> {
    if row(caller, thread, Action::Read).await?.is_none() {
        return Ok(json!({ "checkpoints": [] }));
    }
    let told = crate::routes::states::past(caller, thread, params).await;
    let told = told.map_err(|error| match error.status {
        StatusCode::UNPROCESSABLE_ENTITY => invalid(error.detail),
        _ => error.into(),
    })?;
    let summary = |state: &Value| {
        json!({
            "id": state["checkpoint"]["checkpoint_id"],
            "timestamp": state["created_at"],
            "step": state["metadata"]["step"],
            "metadata": state["metadata"],
        })
    };
    Ok(json!({ "checkpoints": told.iter().map(|state| summary(state.value())).collect::<Vec<_>>() }))
}

/// Starts a run from an earlier checkpoint.
async fn fork(caller: &Caller, thread: &str, params: &Value) -> Result<Value, Refused> {
    let id = params.get("checkpoint_id").and_then(Value::as_str).and_then(|id| Uuid::try_parse(id).ok());
    let id = id.ok_or_else(|| invalid("state.fork requires a checkpoint_id, which is a UUID."))?;
    let missing = || Refused("no_such_checkpoint", format!("Unknown checkpoint: {id}"));
    let known = row(caller, thread, Action::CreateRun).await?.ok_or_else(missing)?;
    let found = caller.app.runs.get(&known.id, "", Some(id)).await;
    found.map_err(|error| Refused::from(crate::fault::saver(&error)))?.ok_or_else(missing)?;
    let assistant =
        known.metadata.get("assistant_id").or_else(|| known.metadata.get("graph_id")).and_then(Value::as_str);
    let body = json!({
        "assistant_id": assistant,
        "input": params.get("input"),
        "config": params.get("config"),
        "checkpoint_id": id,
    });
    let body: RunCreate = from_value(body).map_err(|error| invalid(error.detail))?;
    let run = add(caller, thread, body).await?;
    Ok(json!({ "run_id": run.id, "thread_id": run.thread }))
}

async fn tree(caller: &Caller, thread: &str) -> Result<Value, Refused> {
    let idle = || Refused("no_such_run", "No active run is bound to this thread.".to_owned());
    let known = row(caller, thread, Action::Read).await?.ok_or_else(idle)?;
    let live = caller.app.runs.runs(RunQuery::thread(known.id).live()).await.map_err(refused)?;
    let run = live.first().ok_or_else(idle)?;
    Ok(json!({ "tree": { "namespace": [], "graph_name": run.graph, "status": "running", "children": [] } }))
}

async fn state(caller: &Caller, thread: &str, params: &Value) -> Result<Value, Refused> {
    let namespace: Vec<String> = match params.get("namespace").filter(|namespace| !namespace.is_null()) {
        None => Vec::new(),
        Some(list) => {
            serde_json::from_value(list.clone()).map_err(|_| invalid("namespace must be an array of texts"))?
        }
    };
    let told = crate::routes::states::at(caller, thread, &namespace.join("|")).await?;

    Ok(json!({ "values": told.values, "checkpoint": told.checkpoint, "next": told.next, "tasks": told.tasks }))
}
