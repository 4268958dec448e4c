//! Reads, lists and changes the states of threads.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

use axum::Json;
use axum::extract::Path;
use axum::http::StatusCode;
use futures_core::Stream;
use futures_util::{TryStreamExt, stream};
use hier_core::checkpoint::{Checkpointer, Claim, ListQuery, WhenRunning};
use hier_core::graph::{DynCommand, DynSnapshot, DynUpdates};
use hier_core::runs::{EventBuffering, LogEvent, NewEvent, RunLog, ThreadIndex, ThreadRow, ThreadStatus};
use hier_core::{Config, RunError};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use uuid::Uuid;

use crate::answer::{As, Selected};
use crate::app::Caller;
use crate::auth::Action;
use crate::body::{JsonBody, OptionalBody};
use crate::error::{ApiError, ApiResult};
use crate::fault::{self, refused};
use crate::graphs::ServedGraph;
use crate::query::Query;
use crate::wire::checkpoint::CheckpointSelector;
use crate::wire::object::{CheckpointAddress, StateObject};
use crate::wire::state;

/// Returns the graph that ran last on the thread, if any.
fn graph_of<'a>(caller: &'a Caller, thread: &ThreadRow) -> ApiResult<Option<&'a ServedGraph>> {
    match thread.metadata.get("graph_id").and_then(Value::as_str) {
        None => Ok(None),
        Some(name) => caller.app.graph(name).map(Some),
    }
}

fn saver(caller: &Caller) -> Arc<dyn Checkpointer> {
    caller.app.runs.clone().as_checkpointer()
}

async fn read(
    caller: &Caller,
    thread: &ThreadRow,
    address: &CheckpointSelector,
    subgraphs: bool,
) -> ApiResult<StateObject> {
    match graph_of(caller, thread)? {
        Some(served) => read_graph(caller, served, thread, address.config(&thread.id), subgraphs).await,
        None => Ok(state::empty()),
    }
}

/// Reads the state of the thread's graph or of a subgraph. With `subgraphs`, includes the states of the subgraphs below
/// it.
async fn read_graph(
    caller: &Caller,
    served: &ServedGraph,
    thread: &ThreadRow,
    config: Config,
    subgraphs: bool,
) -> ApiResult<StateObject> {
    let wanted = config.checkpoint_id();
    let snapshot = served.graph.state(saver(caller), config).await.map_err(|error| fault::graph(&error))?;
    if wanted.is_some() && snapshot.checkpoint.is_none() {
        return Err(ApiError::not_found(format!("Thread with ID {} has no such checkpoint", thread.id)));
    }
    let mut state = state::state(&served.message_paths, &thread.id, &snapshot, &thread.metadata);
    if subgraphs {
        for (task, of) in state.tasks.iter_mut().zip(&snapshot.tasks) {
            let Some(below) = of.state.clone() else { continue };
            task.state = Some(Box::new(Box::pin(read_graph(caller, served, thread, below, true)).await?));
            task.checkpoint = None;
        }
    }
    Ok(state)
}

pub(crate) async fn at(caller: &Caller, thread: &str, namespace: &str) -> ApiResult<StateObject> {
    let thread = caller.thread(thread, Action::Read).await?;
    read(caller, &thread, &CheckpointSelector { checkpoint: None, namespace: Some(namespace.to_owned()) }, false).await
}

/// Options of the response with a state.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default)]
pub(crate) struct StateQuery {
    /// If true, each task that runs a subgraph contains the subgraph's state.
    subgraphs: bool,
    /// Fields to return. Defaults to all.
    #[schemars(with = "Vec<String>")]
    select: BTreeSet<String>,
}

impl StateQuery {
    fn select(&self, state: &StateObject) -> Selected<StateObject> {
        Selected::of(state, (!self.select.is_empty()).then_some(&self.select))
    }
}

pub(crate) async fn get(
    caller: Caller,
    Path(thread): Path<String>,
    Query(query): Query<StateQuery>,
) -> ApiResult<Json<Selected<StateObject>>> {
    let thread = caller.thread(&thread, Action::Read).await?;
    let state = read(&caller, &thread, &CheckpointSelector::default(), query.subgraphs).await?;
    Ok(Json(query.select(&state)))
}

pub(crate) async fn get_at(
    caller: Caller,
    Path((thread, checkpoint)): Path<(String, String)>,
    Query(query): Query<StateQuery>,
) -> ApiResult<Json<Selected<StateObject>>> {
    let thread = caller.thread(&thread, Action::Read).await?;
    let checkpoint = crate::body::id("checkpoint", &checkpoint)?;
    let address = CheckpointSelector { checkpoint: Some(checkpoint), namespace: None };
    let state = read(&caller, &thread, &address, query.subgraphs).await?;
    Ok(Json(query.select(&state)))
}

/// Selects the state at a checkpoint.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default)]
#[schemars(rename = "StateAt")]
pub(crate) struct AtBody {
    checkpoint: Option<Value>,
    subgraphs: Option<bool>,
    #[schemars(with = "Option<Vec<String>>")]
    select: Option<BTreeSet<String>>,
}

pub(crate) async fn post_at(
    caller: Caller,
    Path(thread): Path<String>,
    OptionalBody(body): OptionalBody<AtBody>,
) -> ApiResult<Json<Selected<StateObject>>> {
    let thread = caller.thread(&thread, Action::Read).await?;
    let address = CheckpointSelector::parse("checkpoint", body.checkpoint.as_ref()).map_err(ApiError::invalid)?;
    let state = read(&caller, &thread, &address, body.subgraphs.unwrap_or(false)).await?;
    Ok(Json(Selected::of(&state, body.select.as_ref())))
}

/// Selects states of a thread.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default)]
#[schemars(rename = "History")]
pub(crate) struct HistoryBody {
    limit: Option<usize>,
    before: Option<Value>,
    metadata: Option<Map<String, Value>>,
    checkpoint: Option<Value>,
    #[schemars(with = "Option<Vec<String>>")]
    select: Option<BTreeSet<String>>,
}

pub(crate) async fn history(
    caller: Caller,
    Path(thread): Path<String>,
    OptionalBody(body): OptionalBody<HistoryBody>,
) -> ApiResult<As<Vec<Selected<StateObject>>>> {
    As::streamed(History::find(caller, &thread, body).await?.states()).await
}

/// Selects states of a thread.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default)]
pub(crate) struct StateHistoryQuery {
    /// Maximum number of states. Defaults to 1.
    limit: Option<usize>,
    /// Returns only states before this checkpoint. Send the checkpoint's id, or its address as JSON.
    before: Option<String>,
}

pub(crate) async fn history_get(
    caller: Caller,
    Path(thread): Path<String>,
    Query(StateHistoryQuery { limit, before }): Query<StateHistoryQuery>,
) -> ApiResult<As<Vec<Selected<StateObject>>>> {
    let before = before.map(|before| serde_json::from_str(&before).unwrap_or(Value::String(before)));
    let body = HistoryBody { limit, before, ..HistoryBody::default() };
    As::streamed(History::find(caller, &thread, body).await?.states()).await
}

/// Lists the states of a graph of the thread, each as `summary` returns it. `params` has fields of the v3 event protocol:
/// `namespace`, `limit` and `before`.
pub(crate) async fn past(
    caller: &Caller,
    thread: &str,
    params: &Value,
    summary: impl Fn(&Value) -> Value,
) -> ApiResult<Vec<Value>> {
    let namespace: Option<Vec<String>> = crate::body::from_value(params.get("namespace").cloned().unwrap_or_default())?;
    let limit: Option<usize> = crate::body::from_value(params.get("limit").cloned().unwrap_or_default())?;
    let checkpoint = namespace.filter(|parts| !parts.is_empty());
    let checkpoint = checkpoint.map(|parts| json!({ "checkpoint_ns": parts.join("|") }));
    let before = params.get("before").cloned();
    let limit = limit.or(Some(10));
    let body = HistoryBody { limit, before, checkpoint, ..HistoryBody::default() };
    let states = History::find(caller.clone(), thread, body).await?.states();
    states.map_ok(|state| summary(state.value())).try_collect().await
}

/// The states of a thread, newest first.
struct History {
    caller: Caller,
    thread: ThreadRow,
    config: Config,
    query: ListQuery,
    select: Option<BTreeSet<String>>,
    /// The number of states to read.
    left: usize,
    page: VecDeque<DynSnapshot>,
}

impl History {
    async fn find(caller: Caller, thread: &str, body: HistoryBody) -> ApiResult<Self> {
        let left = super::page::Page::new(&caller, body.limit, None, 1)?.limit;
        let thread = caller.thread(thread, Action::Read).await?;
        let address = CheckpointSelector::parse("checkpoint", body.checkpoint.as_ref()).map_err(ApiError::invalid)?;
        let before = CheckpointSelector::parse("before", body.before.as_ref()).map_err(ApiError::invalid)?.checkpoint;
        let query = ListQuery { before, filter: body.metadata.unwrap_or_default(), ..ListQuery::default() };
        let config = address.config(&thread.id);
        Ok(Self { caller, thread, config, query, select: body.select, left, page: VecDeque::new() })
    }

    fn states(self) -> impl Stream<Item = ApiResult<Selected<StateObject>>> + Send + 'static {
        stream::try_unfold(self, |mut history| async move { Ok(history.next().await?.map(|state| (state, history))) })
    }

    async fn next(&mut self) -> ApiResult<Option<Selected<StateObject>>> {
        let Some(served) = graph_of(&self.caller, &self.thread)? else { return Ok(None) };
        if self.page.is_empty() && self.left > 0 {
            // A cluster sends the whole page as one message, and the config can select a single checkpoint of the page.
            let is_whole = served.graph.runs_elsewhere() || self.config.checkpoint_id().is_some();
            // A rollback may delete a checkpoint after it was listed.
            let (size, attempts) = if is_whole { (self.left, 1) } else { (1, 2) };
            self.query.limit = Some(size);
            for _ in 0..attempts {
                let (config, query) = (self.config.clone(), self.query.clone());
                let found = served.graph.history(saver(&self.caller), config, query).await;
                self.page = found.map_err(|error| fault::graph(&error))?.into();
                if !self.page.is_empty() {
                    break;
                }
            }
            self.query.before = self.page.back().and_then(|last| last.checkpoint);
            self.left = if self.page.len() < size { 0 } else { self.left - size };
        }
        let Some(snapshot) = self.page.pop_front() else { return Ok(None) };
        let state = state::state(&served.message_paths, &self.thread.id, &snapshot, &self.thread.metadata);
        Ok(Some(Selected::of(&state, self.select.as_ref())))
    }
}

/// The body that changes a state.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default)]
#[schemars(rename = "StateUpdate")]
pub(crate) struct UpdateBody {
    values: Option<Value>,
    as_node: Option<String>,
    checkpoint: Option<Value>,
    checkpoint_id: Option<Uuid>,
}

/// The checkpoint that contains a change.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "StateUpdated")]
pub(crate) struct StateUpdated {
    checkpoint: CheckpointAddress,
    /// An older name of `checkpoint`.
    configurable: CheckpointAddress,
    checkpoint_id: Option<Uuid>,
}

pub(crate) async fn update(
    caller: Caller,
    Path(thread): Path<String>,
    JsonBody(body): JsonBody<UpdateBody>,
) -> ApiResult<Json<StateUpdated>> {
    let thread = caller.thread(&thread, Action::Update).await?;
    if thread.status == ThreadStatus::Busy {
        let wait = "the thread is busy: wait until its runs end or cancel them, then change the state of the thread";
        return Err(ApiError::new(StatusCode::CONFLICT, wait));
    }
    let missing = || ApiError::bad_request("the thread has never run, so its state is unknown: start a run first");
    let served = graph_of(&caller, &thread)?.ok_or_else(missing)?;
    let mut address = CheckpointSelector::parse("checkpoint", body.checkpoint.as_ref()).map_err(ApiError::invalid)?;
    address.checkpoint = address.checkpoint.or(body.checkpoint_id);
    // A subgraph checks its own nodes.
    if let Some(node) = &body.as_node
        && address.namespace.as_ref().is_none_or(String::is_empty)
        && !node.starts_with("__")
        && served.graph.spec().node(node).is_none()
    {
        return Err(ApiError::bad_request(format!("Node {node} does not exist")));
    }
    let mut values = body.values.unwrap_or_default();
    served.without_connector_fields(&mut values);
    let mut update = DynUpdates::values(values);
    update.as_node = body.as_node;
    let checkpoint = change(&caller, served, &thread, address.config(&thread.id), vec![vec![update]]).await?;
    let checkpoint_ns = address.namespace.unwrap_or_default();
    let at = CheckpointAddress { checkpoint_id: checkpoint, thread_id: thread.id.clone(), checkpoint_ns };
    Ok(Json(StateUpdated { checkpoint: at.clone(), configurable: at, checkpoint_id: checkpoint }))
}

/// Indexes the copy of a thread whose run was in progress. The row of the original describes the state before this run,
/// but the copy contains what the run has stored.
pub(super) async fn index_copy(caller: &Caller, copy: ThreadRow) -> ApiResult<ThreadRow> {
    let graph = copy.metadata.get("graph_id").and_then(Value::as_str).and_then(|name| caller.app.graphs.get(name));
    let Some(served) = graph.filter(|served| !served.graph.runs_elsewhere()) else { return Ok(copy) };
    change(caller, served, &copy, Config::new().thread(&*copy.id), Vec::new()).await?;
    caller.app.runs.thread(&copy.id).await.map_err(refused)?.ok_or_else(|| ApiError::no_thread(&copy.id))
}

/// Changes the state of a thread and the thread's row in one transaction. Without supersteps, changes only the row.
async fn change(
    caller: &Caller,
    served: &ServedGraph,
    thread: &ThreadRow,
    config: Config,
    supersteps: Vec<Vec<DynUpdates>>,
) -> ApiResult<Option<Uuid>> {
    let runs = &caller.app.runs;
    let holder = "an update of the state".to_owned();
    let claim = Claim { holder, when_running: WhenRunning::Reject, ..Claim::default() };
    let lease = runs.acquire(&thread.id, claim).await.map_err(|error| fault::saver(&error))?;
    // From here on, the lease ends if the thread is deleted.
    let now = runs.thread(&thread.id).await.map_err(refused);
    let changed = match now {
        Ok(Some(now)) if now.created == thread.created => {
            let log = Arc::new(RunLog::new(runs.clone(), lease.clone(), None, EventBuffering::WithCommits));
            update_and_index(served, &now, config, supersteps, &log).await
        }
        Ok(_) => Err(ApiError::no_thread(&thread.id)),
        Err(error) => Err(error),
    };
    // The lease is also released after an error, so that the thread is free again.
    runs.release(&lease).await.map_err(|error| fault::saver(&error))?;
    changed
}

async fn update_and_index(
    served: &ServedGraph,
    row: &ThreadRow,
    config: Config,
    supersteps: Vec<Vec<DynUpdates>>,
    log: &Arc<RunLog>,
) -> ApiResult<Option<Uuid>> {
    let (saver, thread): (Arc<dyn Checkpointer>, _) = (log.clone(), &*row.id);
    let bad = |error: RunError| fault::graph(&error);
    let (mut at, is_update) = (None, !supersteps.is_empty());
    if is_update {
        at = served.graph.update_state(saver.clone(), config, supersteps).await.map_err(bad)?.checkpoint_id();
    }
    let snapshot = served.graph.state(saver, Config::new().thread(thread)).await.map_err(bad)?;
    let waits = !snapshot.is_finished();
    let mut index = ThreadIndex::new(if waits { ThreadStatus::Interrupted } else { ThreadStatus::Idle });
    index.values = Some(snapshot.values.clone());
    index.interrupts = hier_core::graph::interrupts(&snapshot.questions);
    if !is_update && row.settled == ThreadStatus::Error {
        (index.status, index.error) = (row.settled, row.error.clone());
    }
    if is_update {
        let state = json!(state::state(&served.message_paths, thread, &snapshot, &row.metadata));
        log.push(NewEvent::new(None, LogEvent::StateUpdate { state, thread_id: thread.to_owned() }));
    }
    log.finish(Some(index), None).await.map_err(refused)?;
    Ok(at)
}

/// One superstep of a new thread's history.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
pub(crate) struct Superstep {
    updates: Vec<SuperstepUpdate>,
}

#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(default)]
struct SuperstepUpdate {
    values: Option<Value>,
    command: Option<Value>,
    as_node: Option<String>,
}

/// Writes the history of a new thread.
pub(crate) async fn apply_supersteps(
    caller: &Caller,
    served: &ServedGraph,
    thread: &ThreadRow,
    supersteps: Vec<Superstep>,
) -> ApiResult<()> {
    let update = |update: SuperstepUpdate| {
        let mut typed = DynUpdates::values(update.values.unwrap_or_default());
        typed.as_node = update.as_node;
        if let Some(command) = update.command.filter(|command| !command.is_null()) {
            typed.command = Some(DynCommand::from_json(&command).map_err(ApiError::invalid)?);
        }
        Ok(typed)
    };
    let typed = supersteps.into_iter().map(|step| step.updates.into_iter().map(update).collect());
    let typed: Vec<Vec<DynUpdates>> = typed.collect::<ApiResult<_>>()?;
    change(caller, served, thread, Config::new().thread(&*thread.id), typed).await.map(|_| ())
}
