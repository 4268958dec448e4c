//! Sends signals and messages to the inbox of a thread. Lists and discards the entries that no run has read.

use std::sync::Arc;
use std::time::SystemTime;

use axum::Json;
use axum::extract::Path;
use axum::response::NoContent;
use hier_core::RunError;
use hier_core::checkpoint::{self, Checkpointer, Claim, WhenRunning, codec};
use hier_core::graph::{DynGraph, DynInput};
use hier_core::runs::{
    MultitaskStrategy, NewRun, OnDisconnect, OneThread, Request, Run, RunQuery, RunStatus, ThreadIs,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use uuid::Uuid;

use super::disconnect::{DisconnectGuard, create_guarded};
use crate::app::Caller;
use crate::auth::Action;
use crate::body::{OptionalBody, id};
use crate::error::{ApiError, ApiResult};
use crate::fault::{self, refused};

/// Maximum length of a signal's name, in bytes.
const LONGEST: usize = 256;

/// The body that sends a signal.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default)]
#[schemars(rename = "Signal")]
pub(crate) struct SignalBody {
    id: Option<Uuid>,
    value: Value,
    /// The name of the graph. Required if the thread has never run.
    graph_id: Option<String>,
}

#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "SignalSent")]
pub(crate) struct SignalSent {
    signal_id: Uuid,
    /// True if no signal with this id existed before.
    is_new: bool,
}

/// A signal or message that no run has read.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Mail")]
pub(crate) struct InboxEntry {
    id: Uuid,
    /// The name of the signal. Null for a message.
    signal: Option<String>,
    value: Value,
}

pub(crate) async fn signal(
    caller: Caller,
    Path((thread, name)): Path<(String, String)>,
    OptionalBody(body): OptionalBody<SignalBody>,
) -> ApiResult<Json<SignalSent>> {
    let row = caller.thread(&thread, Action::CreateRun).await?;
    if name.len() > LONGEST {
        return Err(ApiError::invalid(format!("the name of the signal is longer than {LONGEST} bytes")));
    }
    let ran = row.metadata.get("graph_id").and_then(Value::as_str).map(str::to_owned);
    let graph = ran.or(body.graph_id).ok_or_else(|| {
        ApiError::invalid("`graph_id` is missing: the thread has never run, so name the graph that the signal is for")
    })?;
    let graph = &caller.app.graph(&graph)?.graph;
    let id = body.id.unwrap_or_else(Uuid::now_v7);
    let sent = graph.send(saver(&caller, ThreadIs::this(&row)), &row.id, id, Some(&name), &body.value).await;
    let is_new = sent.map_err(|error| fault::graph(&error))?;
    Ok(Json(SignalSent { signal_id: id, is_new }))
}

/// Lists the inbox of a thread, oldest first.
pub(crate) async fn list(caller: Caller, Path(thread): Path<String>) -> ApiResult<Json<Vec<InboxEntry>>> {
    let row = caller.thread(&thread, Action::Read).await?;
    let inbox = caller.app.runs.inbox().map_err(|error| fault::saver(&error))?;
    let waiting = inbox.messages(&row.id).await.map_err(|error| fault::saver(&error))?;
    // If the thread was deleted meanwhile, the entries may belong to a later thread.
    let now = caller.app.runs.thread(&row.id).await.map_err(refused)?;
    if !now.is_some_and(|now| ThreadIs::this(&row).is(&now)) {
        return Err(ApiError::no_thread(&row.id));
    }
    let shown = waiting.iter().map(|posted| {
        let letter = &posted.message;
        // Null if this program cannot read the value.
        let value = codec::decode_json(&letter.value).unwrap_or_default();
        InboxEntry { id: letter.id, signal: letter.signal.as_deref().map(str::to_owned), value }
    });
    Ok(Json(shown.collect()))
}

/// Removes an entry from the inbox of a thread. An entry that no node can read would block all later entries.
pub(crate) async fn discard(caller: Caller, Path((thread, letter)): Path<(String, String)>) -> ApiResult<NoContent> {
    let row = caller.thread(&thread, Action::Update).await?;
    let letter = id("letter", &letter)?;
    let claim = Claim { holder: "hier-server".to_owned(), when_running: WhenRunning::Reject, ..Claim::default() };
    let discarded = checkpoint::discard(&*saver(&caller, ThreadIs::this(&row)), &row.id, claim, letter).await;
    if discarded.map_err(|error| fault::saver(&error))? {
        return Ok(NoContent);
    }
    Err(ApiError::not_found(format!(
        "thread {} has nothing with the id {letter} in its inbox: `GET /threads/{{thread_id}}/mail` lists the inbox",
        row.id
    )))
}

fn saver(caller: &Caller, is: ThreadIs) -> Arc<dyn Checkpointer> {
    Arc::new(OneThread::new(caller.app.runs.clone(), is))
}

/// Returns the run of a thread that is running or runs next. A run with a delay is not in progress before it is due.
pub(crate) async fn in_progress(caller: &Caller, thread: &str) -> ApiResult<Option<Run>> {
    let mut live = RunQuery::thread(thread).live();
    live.limit = usize::MAX;
    let (mut runs, now) = (caller.app.runs.runs(live).await.map_err(refused)?, SystemTime::now());
    runs.retain(|run| run.status == RunStatus::Running || run.starts <= now.max(run.created));
    Ok(runs.into_iter().min_by_key(|run| (run.status != RunStatus::Running, run.number)))
}

/// Sends an input to the run that is in progress on a thread, and returns that run. Returns `None` if no run is in
/// progress. The client decides with `on_disconnect` only about a run that is added for the input, because a run in
/// progress has its own client.
pub(crate) async fn inject(
    caller: &Caller,
    thread: &str,
    is: ThreadIs,
    request: &Request,
    on_disconnect: OnDisconnect,
) -> ApiResult<Option<(Run, DisconnectGuard)>> {
    let Some(run) = in_progress(caller, thread).await? else { return Ok(None) };
    let graph = caller.app.graph(&run.graph)?.graph.clone();
    let (inbox, value) = inbox_message(&*graph, &run.graph, request)?;
    let sent = graph.send(saver(caller, is.clone()), thread, Uuid::now_v7(), None, &value).await;
    sent.map_err(|error| match error {
        RunError::Send { reason, .. } => ApiError::invalid(format!("`input.{inbox}`: {reason}")),
        error => fault::graph(&error),
    })?;
    if let Some(mut next) = next_run(caller, &*graph, &run, is, &inbox).await? {
        next.on_disconnect = on_disconnect;
        return create_guarded(&caller.app, next).await.map(Some);
    }
    let guard = DisconnectGuard::new(&caller.app, &run, OnDisconnect::Continue);
    Ok(Some((run, guard)))
}

fn inbox_message(graph: &dyn DynGraph, name: &str, request: &Request) -> ApiResult<(String, Value)> {
    let inbox = graph.inbox().ok_or_else(|| {
        ApiError::invalid(format!(
            "`multitask_strategy`: graph `{name}` has no inbox, so its runs accept no input: declare one with `inbox: channel`, or use \
             another strategy (`enqueue`, `interrupt`, `rollback`)"
        ))
    })?;
    if request.command.is_some() {
        return Err(ApiError::invalid("`multitask_strategy`: a command cannot be injected: send an input"));
    }
    let wrong = || {
        ApiError::invalid(format!(
            "`input`: an input that is injected into graph `{name}` goes to its inbox: send an object with `{inbox}` and no other field"
        ))
    };
    let fields = request.input.as_object().filter(|fields| fields.len() == 1).ok_or_else(wrong)?;
    let value = fields.get(inbox).ok_or_else(wrong)?;
    Ok((inbox.to_owned(), value.clone()))
}

/// Returns another run that reads the message if this run ended before it read the message.
async fn next_run(
    caller: &Caller,
    graph: &dyn DynGraph,
    run: &Run,
    is: ThreadIs,
    inbox: &str,
) -> ApiResult<Option<NewRun>> {
    let now = caller.app.runs.run(run.id).await.map_err(refused)?;
    if now.is_some_and(|now| now.status.is_live()) {
        return Ok(None);
    }
    let messages = caller.app.runs.inbox().map_err(|error| fault::saver(&error))?;
    let waiting = messages.messages(&run.thread).await.map_err(|error| fault::saver(&error))?;
    let input = Value::Object(Map::from_iter([(inbox.to_owned(), json!([]))]));
    if waiting.iter().all(|posted| posted.message.signal.is_some())
        || graph.check(&DynInput::New(input.clone())).is_err()
    {
        return Ok(None);
    }
    let mut next = NewRun::new(&*run.thread, &*run.graph, run.request.clone());
    next.request.continue_thread();
    next.request.input = input;
    (next.id, next.assistant) = (Some(Uuid::now_v7()), run.assistant.clone());
    next.metadata.clone_from(&run.metadata);
    next.multitask_strategy = MultitaskStrategy::Enqueue;
    next.on = Some(is);
    Ok(Some(next))
}
