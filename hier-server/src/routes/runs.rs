//! Runs: created, listed, waited for, deleted.

use axum::Json;
use axum::extract::Path;
use axum::http::{HeaderValue, header};
use axum::response::{NoContent, Response};
use hier_core::runs::{
    Assistant, MultitaskStrategy, NewRun, NewThread, Request, Run, RunQuery, RunStatus, StreamMode, ThreadIs,
};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use uuid::Uuid;

use super::answers;
use super::mail;
use super::streams::{self, Leaves};
use crate::answer::{As, Selected};
use crate::app::{App, Caller, matches};
use crate::auth::{Action, Resource, User};
use crate::body::{Body, id};
use crate::error::{ApiError, ApiResult};
use crate::fault::refused;
use crate::follow::Ending;
use crate::query::Query;
use crate::reserved;
use crate::reserved::USER;
use crate::stream::translate::recorded;
use crate::wire::object::{RunObject, RunOutput, run_statuses};
use crate::wire::row;
use crate::wire::row::run as run_json;
use crate::wire::run::{IfNotExists, Multitask, OnCompletion, OneOrMany, RunCreate};

/// For whom a run is created.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Follower {
    /// Nobody: it is looked at later.
    Nobody,
    /// Somebody who waits for its end.
    End,
    /// Somebody who is told what happens.
    Stream,
}

/// What the run is told to keep of what happens.
pub(crate) struct Kept {
    /// The modes of the engine.
    pub(crate) modes: Vec<StreamMode>,
    pub(crate) subgraphs: bool,
}

fn kept(body: &RunCreate, temporary: bool, follower: Follower) -> Kept {
    let options = body.options();
    // Of a run whose thread nobody else knows, only its end is told to who waits for it.
    let modes = if temporary && follower == Follower::End { Vec::new() } else { recorded(&options.stream_mode) };
    Kept { modes, subgraphs: options.stream_subgraphs }
}

/// Adds a run to a thread, or to one of its own.
pub(crate) async fn add(caller: &Caller, thread: Option<&str>, body: RunCreate, follower: Follower) -> ApiResult<Run> {
    let (kept, temporary) = kept_of(thread, &body, follower);
    add_keeping(caller, thread, body, kept, temporary).await
}

/// What is kept of a run, and whether its thread is deleted with its end.
pub(super) fn kept_of(thread: Option<&str>, body: &RunCreate, follower: Follower) -> (Kept, bool) {
    let temporary = thread.is_none() && body.on_completion.unwrap_or_default() == OnCompletion::Delete;
    (kept(body, temporary, follower), temporary)
}

/// A run that a client asks for, checked.
pub(crate) struct Wanted {
    pub(crate) assistant: Assistant,
    pub(crate) request: Request,
    pub(crate) strategy: MultitaskStrategy,
    /// What the metadata of its thread has to contain.
    pub(crate) filter: Map<String, Value>,
}

/// Checks a run that is to be added later.
pub(crate) async fn wanted(
    caller: &Caller,
    body: &RunCreate,
    temporary: bool,
    follower: Follower,
) -> ApiResult<Wanted> {
    wanted_keeping(caller, body, kept(body, temporary, follower)).await
}

async fn wanted_keeping(caller: &Caller, body: &RunCreate, kept: Kept) -> ApiResult<Wanted> {
    let name = body.assistant_id.0.as_deref();
    let name =
        name.ok_or_else(|| ApiError::invalid("`assistant_id` is missing: give an assistant's id or a graph's name"))?;
    let assistant = caller.assistant_or_graph(name).await?;
    let graph = caller.app.graph(&assistant.graph)?;
    let request = request(caller, body, &assistant, kept, graph)?;
    let filter = caller.may(Resource::Threads, Action::CreateRun).await?;
    let strategy = strategy(body.multitask_strategy.unwrap_or_default());
    Ok(Wanted { assistant, request, strategy, filter })
}

/// The same, with what is kept of it.
pub(crate) async fn add_keeping(
    caller: &Caller,
    thread: Option<&str>,
    body: RunCreate,
    kept: Kept,
    temporary: bool,
) -> ApiResult<Run> {
    let new = checked(caller, thread, &body, kept, temporary).await?;
    match injected(caller, thread, &body, &new).await? {
        Some(run) => Ok(run),
        None => caller.app.create_run(new).await.map_err(refused),
    }
}

/// The run that takes its input, if it is to be injected and one is going on.
async fn injected(caller: &Caller, thread: Option<&str>, body: &RunCreate, new: &NewRun) -> ApiResult<Option<Run>> {
    if body.multitask_strategy != Some(Multitask::Inject) || thread.is_none() {
        return Ok(None);
    }
    mail::inject(caller, &new.thread, new.on.clone().unwrap_or_default(), &new.request).await
}

/// A run that may be added as it is.
pub(super) async fn checked(
    caller: &Caller,
    thread: Option<&str>,
    body: &RunCreate,
    kept: Kept,
    temporary: bool,
) -> ApiResult<NewRun> {
    let Wanted { assistant, request, strategy, filter } = wanted_keeping(caller, body, kept).await?;
    let thread_uuid = thread.map_or_else(|| Ok(Uuid::now_v7()), |thread| id("thread", thread))?;
    let thread_id = thread_uuid.to_string();
    let mut new = NewRun::new(thread_id.clone(), assistant.graph.clone(), request);
    let is_new = thread.is_none() || body.if_not_exists == Some(IfNotExists::Create);
    let create = if is_new { Some(caller.may(Resource::Threads, Action::Create).await) } else { None };
    let is_derived = reserved::is_derived(thread_uuid);
    let is_open =
        !is_derived && filter.is_empty() && create.as_ref().is_some_and(|may| may.as_ref().is_ok_and(Map::is_empty));
    // The store decides whether to create a missing thread. To find out whether an existing one belongs to another user, it must be read.
    let known =
        if thread.is_some() && !is_open { caller.app.runs.thread(&thread_id).await.map_err(refused)? } else { None };
    // Checked again when the run is added, because the thread may have been created or deleted meanwhile.
    if known.is_some() || !filter.is_empty() {
        let created = known.as_ref().map(|row| row.created);
        new.on = Some(ThreadIs { created, metadata: filter.clone() });
    }
    match (&known, create) {
        (Some(row), _) if matches(&row.metadata, &filter) => {}
        (None, Some(may)) => {
            let mut made = NewThread::new(thread_id.clone());
            made.metadata.extend(filter.into_iter().chain(may?));
            new.new_thread = Some(made);
        }
        _ => return Err(ApiError::not_found("Thread or assistant not found.")),
    }
    // Only AG-UI chooses the ids of runs, and creates the threads derived from its clients' ids.
    if new.new_thread.is_some() && body.run_id.is_none() && is_derived {
        return Err(ApiError::invalid(reserved::REFUSED));
    }
    answers::check(caller, body, &mut new).await?;
    new.id = Some(body.run_id.unwrap_or_else(Uuid::now_v7));
    new.assistant = Some(assistant.id.clone());
    new.metadata = metadata(body, &assistant.id, &assistant.graph, &assistant.metadata);
    new.multitask_strategy = strategy;
    new.on_disconnect = body.on_disconnect.unwrap_or_default();
    new.after = body.delay().map_err(ApiError::invalid)?;
    new.temporary = temporary;
    Ok(new)
}

fn strategy(word: Multitask) -> MultitaskStrategy {
    match word {
        Multitask::Reject => MultitaskStrategy::Reject,
        // What cannot be injected, since nothing runs, begins a run.
        Multitask::Enqueue | Multitask::Inject => MultitaskStrategy::Enqueue,
        Multitask::Interrupt => MultitaskStrategy::Interrupt,
        Multitask::Rollback => MultitaskStrategy::Rollback,
    }
}

fn metadata(body: &RunCreate, assistant: &str, graph: &str, of: &Map<String, Value>) -> Map<String, Value> {
    let mut metadata = of.clone();
    metadata.extend(body.metadata.clone().unwrap_or_default());
    metadata.insert("graph_id".to_owned(), graph.into());
    metadata.insert("assistant_id".to_owned(), assistant.into());
    metadata
}

/// What the run is to do: what the caller says, over what the assistant says.
fn request(
    caller: &Caller,
    body: &RunCreate,
    assistant: &Assistant,
    kept: Kept,
    graph: &crate::graphs::Served,
) -> ApiResult<Request> {
    let mut request = Request::default();
    request.input = body.input.clone().unwrap_or_default();
    graph.without_connector_fields(&mut request.input);
    request.command = body.command.as_ref().map(|command| json!(command));
    graph.check(&request).map_err(ApiError::invalid)?;
    let mut config = assistant.config.clone();
    let given = body.config.as_ref().and_then(|config| match json!(config) {
        Value::Object(config) => Some(config),
        _ => None,
    });
    for (name, value) in given.unwrap_or_default() {
        match (config.get_mut(&name).and_then(Value::as_object_mut), value) {
            (Some(old), Value::Object(new)) => old.extend(new),
            (_, value) => drop(config.insert(name, value)),
        }
    }
    // The thread is that of the route, and the user the one who asks, whatever the configuration says.
    match config.get_mut("configurable") {
        Some(Value::Object(fields)) => fields.retain(|name, _| !reserved::is_own(name)),
        Some(_) => drop(config.remove("configurable")),
        None => {}
    }
    let configurable = config.get("configurable").filter(|value| value.as_object().is_some_and(|map| !map.is_empty()));
    let configurable = configurable.cloned();
    request.context = match (&body.context, &assistant.context) {
        (Some(context), _) if !context.is_null() => context.clone(),
        (_, Value::Null) => configurable.unwrap_or_default(),
        (_, context) if configurable.is_none() || body.config.is_none() => context.clone(),
        _ => configurable.unwrap_or_default(),
    };
    if !caller.user.identity.is_empty() {
        let User { identity, permissions, claims } = &caller.user;
        let user = json!({ "identity": identity, "permissions": permissions, "claims": claims });
        let fields = config.get("configurable").and_then(Value::as_object).cloned();
        let with_user = fields.into_iter().flatten().chain([(USER.to_owned(), user)]).collect();
        config.insert("configurable".to_owned(), Value::Object(with_user));
    }
    request.config = config;
    (request.stream_modes, request.stream_subgraphs) = (kept.modes, kept.subgraphs);
    request.interrupt_before = body.interrupt_before.clone().map(OneOrMany::into_vec);
    request.interrupt_after = body.interrupt_after.clone().map(OneOrMany::into_vec);
    for (name, nodes) in
        [("interrupt_before", &request.interrupt_before), ("interrupt_after", &request.interrupt_after)]
    {
        let spec = graph.graph.spec();
        let unknown = nodes.iter().flatten().find(|node| *node != "*" && spec.node(node).is_none());
        if let Some(node) = unknown {
            return Err(ApiError::invalid(format!("`{name}`: {}", spec.unknown_node(node))));
        }
    }
    request.durability = body.durability();
    request.checkpoint = body.start().map_err(ApiError::invalid)?;
    request.checkpoint_ns = body.namespace().map_err(ApiError::invalid)?;
    if let Some(address) = &body.webhook {
        caller.app.webhooks.check(address).map_err(ApiError::invalid)?;
        request.webhook = Some(address.clone());
    }
    request.options = body.options();
    Ok(request)
}

/// The path of a run, which clients remember.
pub(crate) fn path_of(run: &Run, of_thread: bool) -> String {
    if of_thread { format!("/threads/{}/runs/{}", run.thread, run.id) } else { format!("/runs/{}", run.id) }
}

/// Adds the headers by which clients find a run again.
pub(crate) fn located(response: &mut Response, run: &Run, of_thread: bool, below: Option<&str>) {
    let path = path_of(run, of_thread);
    let mut set = |name, value: String| {
        if let Ok(value) = HeaderValue::from_str(&value) {
            response.headers_mut().insert(name, value);
        }
    };
    if let Some(below) = below {
        set(header::LOCATION, format!("/threads/{}/runs/{}/{below}", run.thread, run.id));
    }
    set(header::CONTENT_LOCATION, path);
}

async fn background(caller: Caller, thread: Option<String>, body: RunCreate) -> ApiResult<As<RunObject>> {
    let run = add(&caller, thread.as_deref(), body, Follower::Nobody).await?;
    let mut response = As::json(&run_json(&run));
    located(&mut response.0, &run, thread.is_some(), None);
    Ok(response)
}

pub(crate) async fn create(
    caller: Caller,
    Path(thread): Path<String>,
    Body(body): Body<RunCreate>,
) -> ApiResult<As<RunObject>> {
    background(caller, Some(thread), body).await
}

pub(crate) async fn create_stateless(caller: Caller, Body(body): Body<RunCreate>) -> ApiResult<As<RunObject>> {
    background(caller, None, body).await
}

async fn waited(caller: Caller, thread: Option<String>, body: RunCreate) -> ApiResult<As<RunOutput>> {
    let (kept, temporary) = kept_of(thread.as_deref(), &body, Follower::End);
    let new = checked(&caller, thread.as_deref(), &body, kept, temporary).await?;
    let (run, ending) = if let Some(run) = injected(&caller, thread.as_deref(), &body, &new).await? {
        let ending = Ending::of(&caller.app, &run.thread);
        (run, ending)
    } else {
        // It listens before the run is there, so that its end is heard.
        let ending = Ending::of_new(&caller.app, &new.thread);
        (caller.app.create_run(new).await.map_err(refused)?, ending)
    };
    let leaves = Leaves::as_said(&run);
    let mut response = streams::until_end(&caller, &run, leaves, ending);
    located(&mut response.0, &run, true, Some("join"));
    Ok(response)
}

pub(crate) async fn wait(
    caller: Caller,
    Path(thread): Path<String>,
    Body(body): Body<RunCreate>,
) -> ApiResult<As<RunOutput>> {
    waited(caller, Some(thread), body).await
}

pub(crate) async fn wait_stateless(caller: Caller, Body(body): Body<RunCreate>) -> ApiResult<As<RunOutput>> {
    waited(caller, None, body).await
}

/// Which runs of a thread are listed.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default)]
pub(crate) struct RunsQuery {
    /// How many at most; 10 unless given.
    limit: Option<usize>,
    /// How many of the newest are left out.
    offset: Option<usize>,
    /// Only those with this status.
    #[schemars(schema_with = "run_statuses")]
    status: Option<RunStatus>,
    /// The fields that are told; all if none is named.
    select: Vec<String>,
}

pub(crate) async fn list(
    caller: Caller,
    Path(thread): Path<String>,
    Query(query): Query<RunsQuery>,
) -> ApiResult<Json<Vec<Selected<RunObject>>>> {
    let thread = caller.thread(&thread, Action::Read).await?;
    let mut runs = RunQuery::thread(thread.id);
    let page = super::page::Page::new(&caller, query.limit, query.offset, 10)?;
    (runs.limit, runs.offset) = (page.limit, page.offset);
    runs.status.extend(query.status);
    let fields = (!query.select.is_empty()).then_some(query.select);
    Selected::<RunObject>::check(fields.as_deref())?;
    let found = caller.app.runs.runs(runs).await.map_err(refused)?;
    Ok(Json(found.iter().map(|run| Selected::of(&run_json(run), fields.as_deref())).collect()))
}

pub(crate) async fn get(caller: Caller, Path((thread, run)): Path<(String, String)>) -> ApiResult<Json<RunObject>> {
    Ok(Json(run_json(&caller.run(&thread, &run, Action::Read).await?)))
}

pub(crate) async fn delete(caller: Caller, Path((thread, run)): Path<(String, String)>) -> ApiResult<NoContent> {
    let run = caller.run(&thread, &run, Action::CreateRun).await?;
    caller.app.runs.remove_run(run.id).await.map_err(refused)?;
    Ok(NoContent)
}

/// What becomes of the run.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default)]
pub(crate) struct JoinQuery {
    /// Whether the run is cancelled if the client goes away.
    cancel_on_disconnect: bool,
}

pub(crate) async fn join(
    caller: Caller,
    Path((thread, run)): Path<(String, String)>,
    Query(query): Query<JoinQuery>,
) -> ApiResult<As<RunOutput>> {
    let run = caller.run(&thread, &run, Action::Read).await?;
    let leaves = Leaves::asked(&caller, &run, query.cancel_on_disconnect).await?;
    let ending = Ending::of(&caller.app, &run.thread);
    let mut response = streams::until_end(&caller, &run, leaves, ending);
    located(&mut response.0, &run, true, Some("join"));
    Ok(response)
}

/// What `wait` and `join` answer at the end.
pub(crate) fn final_body(app: &App, run: &Run) -> Value {
    row::output(&app.places(&run.graph), run)
}
