//! Creates, finds, changes, copies and deletes threads. The module `states` has the states of threads.

use std::collections::BTreeSet;
use std::time::Duration;

use axum::Json;
use axum::extract::Path;
use axum::response::NoContent;
use hier_core::checkpoint::{Prune, Strategy};
use hier_core::runs::{
    NewThread, Order, RunQuery, SortBy, ThreadIs, ThreadPatch, ThreadQuery, ThreadRow, ThreadStatus,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use uuid::Uuid;

use super::assistants::IfExistsWord;
use super::page::{Page, is_descending, unknown_sort};
use super::run_plan::config_for;
use super::states;
use crate::answer::{As, Preferred, Prefers, Selected};
use crate::app::{App, Caller};
use crate::auth::{Action, Resource};
use crate::body::{JsonBody, OptionalBody, SearchFilter};
use crate::error::{ApiError, ApiResult};
use crate::fault::{already_exists, refused, saver};
use crate::reserved;
use crate::time::time_to_live;
use crate::wire::object::ThreadObject;
use crate::wire::row;

fn thread(app: &App, row: &ThreadRow) -> ThreadObject {
    row::thread(&app.message_paths_of(row), row)
}

/// The body that creates or changes a thread.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default)]
#[schemars(rename = "ThreadCreate")]
pub(crate) struct ThreadBody {
    thread_id: Option<Uuid>,
    metadata: Option<Map<String, Value>>,
    if_exists: Option<IfExistsWord>,
    ttl: Option<Ttl>,
    supersteps: Option<Vec<states::Superstep>>,
}

/// The time to live of a thread after its last change: a number of minutes, or an object with that number in `ttl`.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(untagged, expecting = "expected a number of minutes, or an object with this number in `ttl`")]
pub(crate) enum Ttl {
    Minutes(f64),
    Strategy {
        #[serde(default)]
        strategy: Option<String>,
        ttl: f64,
    },
}

impl Ttl {
    pub(crate) fn duration(&self) -> ApiResult<Duration> {
        let minutes = match self {
            Self::Minutes(minutes) => *minutes,
            Self::Strategy { strategy, ttl } => {
                if let Some(other) = strategy.as_deref().filter(|strategy| *strategy != "delete") {
                    return Err(ApiError::invalid(format!("`ttl.strategy`: `{other}` is unknown: use `delete`")));
                }
                *ttl
            }
        };
        time_to_live(minutes)
    }
}

pub(crate) async fn create(
    caller: Caller,
    OptionalBody(body): OptionalBody<ThreadBody>,
) -> ApiResult<Json<ThreadObject>> {
    let filter = caller.may(Resource::Threads, Action::Create).await?;
    if body.thread_id.is_some_and(reserved::is_derived) {
        return Err(ApiError::invalid(reserved::REFUSED));
    }
    let mut new = NewThread::new(body.thread_id.unwrap_or_else(Uuid::now_v7).to_string());
    new.metadata = body.metadata.unwrap_or_default();
    new.metadata.extend(filter);
    new.time_to_live = body.ttl.as_ref().map(Ttl::duration).transpose()?;
    let supersteps = body.supersteps.filter(|steps| !steps.is_empty());
    let mut graph = None;
    if supersteps.is_some() {
        let name = new.metadata.get("graph_id").and_then(Value::as_str);
        let missing = || ApiError::invalid("`supersteps` need `metadata.graph_id`: name the graph of the states");
        graph = Some(caller.app.graph(name.ok_or_else(missing)?)?);
    }
    let id = new.id.clone();
    let mut row = match caller.app.runs.create_thread(new).await {
        Ok(made) => made,
        // A thread that exists is returned unchanged to users that may read it.
        Err(error) if already_exists(&error) && body.if_exists == Some(IfExistsWord::DoNothing) => {
            let found = caller.thread(&id, Action::Read).await.map_err(|_| refused(error))?;
            return Ok(Json(thread(&caller.app, &found)));
        }
        Err(error) => return Err(refused(error)),
    };
    if let (Some(steps), Some(graph)) = (supersteps, graph) {
        if let Err(error) = states::apply_supersteps(&caller, graph, &row, steps).await {
            discard(&caller, &row).await?;
            return Err(error);
        }
        row = caller.app.runs.thread(&id).await.map_err(refused)?.ok_or_else(|| ApiError::no_thread(&id))?;
    }
    Ok(Json(thread(&caller.app, &row)))
}

/// Deletes a thread that this request created but could not fill, unless another request has added a run to the thread.
async fn discard(caller: &Caller, made: &ThreadRow) -> ApiResult<()> {
    let runs = &caller.app.runs;
    if runs.runs(RunQuery::thread(&made.id)).await.map_err(refused)?.is_empty() {
        caller.app.remove_thread(made).await?;
    }
    Ok(())
}

pub(crate) async fn get(caller: Caller, Path(id): Path<String>) -> ApiResult<Json<ThreadObject>> {
    Ok(Json(thread(&caller.app, &caller.thread(&id, Action::Read).await?)))
}

pub(crate) async fn patch(
    caller: Caller,
    Path(id): Path<String>,
    prefers: Prefers,
    OptionalBody(body): OptionalBody<ThreadBody>,
) -> ApiResult<Preferred<ThreadObject>> {
    let row = caller.thread(&id, Action::Update).await?;
    let mut patch = ThreadPatch::metadata(body.metadata.unwrap_or_default());
    // The owner cannot be changed.
    patch.metadata.extend(caller.may(Resource::Threads, Action::Update).await?);
    patch.on = ThreadIs::this(&row);
    patch.time_to_live = body.ttl.as_ref().map(Ttl::duration).transpose()?;
    let changed = caller.app.runs.update_thread(&row.id, patch).await.map_err(refused)?;
    Ok(Preferred((prefers == Prefers::Representation).then(|| Json(thread(&caller.app, &changed)))))
}

pub(crate) async fn delete(caller: Caller, Path(id): Path<String>) -> ApiResult<NoContent> {
    let row = caller.thread(&id, Action::Delete).await?;
    caller.app.remove_thread(&row).await?;
    Ok(NoContent)
}

/// The alternative to a copy of a thread that a cluster stores.
pub(crate) const COPY_ELSEWHERE: &str =
    "create a thread, and pass the values of this one to `POST /threads/{thread_id}/state`";

/// The alternative to pruning a thread that a cluster stores.
pub(crate) const PRUNE_ELSEWHERE: &str = "delete the thread, or limit the history of new threads with \
                                         `Endpoint::latest_only` on the workers. If the workers store the threads in \
                                         a database, prune them there";

pub(crate) async fn copy(caller: Caller, Path(id): Path<String>) -> ApiResult<Json<ThreadObject>> {
    let row = caller.thread(&id, Action::Read).await?;
    caller.app.check_own(&row, "copy", COPY_ELSEWHERE)?;
    let mut copy = NewThread::new(Uuid::now_v7().to_string());
    copy.metadata = caller.may(Resource::Threads, Action::Create).await?;
    copy.config = Some(config_for(&caller.user, &row.config));
    let runs = &caller.app.runs;
    let copy = runs.clone_thread(&row.id, copy).await.map_err(refused)?;
    let copy_id = copy.id.clone();
    let indexed = index_copy(&caller, &row, copy).await;
    if indexed.is_err()
        && let Err(error) = runs.remove_thread(&copy_id).await
    {
        tracing::warn!(thread = copy_id, %error, "failed to delete a copy that could not be indexed");
    }
    Ok(Json(thread(&caller.app, &indexed?)))
}

/// Indexes the copy if a run of the original may have been in progress when the copy was made. `before` is the row of the
/// original before the copy.
async fn index_copy(caller: &Caller, before: &ThreadRow, copy: ThreadRow) -> ApiResult<ThreadRow> {
    let after = caller.app.runs.thread(&before.id).await.map_err(refused)?;
    // A run that has started since then has stored an event.
    let is_unchanged = after.is_some_and(|after| after.last_event == before.last_event);
    if is_unchanged && before.status != ThreadStatus::Busy {
        return Ok(copy);
    }
    states::index_copy(caller, copy).await
}

/// A search for threads.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default)]
#[schemars(rename = "ThreadSearch")]
pub(crate) struct ThreadSearchBody {
    ids: Option<Vec<Uuid>>,
    metadata: Option<SearchFilter>,
    values: Option<SearchFilter>,
    #[schemars(with = "Option<String>")]
    status: Option<ThreadStatus>,
    limit: Option<usize>,
    offset: Option<usize>,
    sort_by: Option<String>,
    sort_order: Option<String>,
    #[schemars(with = "Option<Vec<String>>")]
    select: Option<BTreeSet<String>>,
    extract: Option<Map<String, Value>>,
}

impl ThreadSearchBody {
    async fn query(&self, caller: &Caller) -> ApiResult<ThreadQuery> {
        let mut query = ThreadQuery::default();
        query.access = caller.may(Resource::Threads, Action::Search).await?;
        let (most, count) = (caller.app.limits.page, self.ids.as_ref().map_or(0, Vec::len));
        if count > most {
            return Err(ApiError::invalid(format!(
                "`ids`: a search for {count} threads is too large: send at most {most}"
            )));
        }
        query.ids = self.ids.as_ref().map(|ids| ids.iter().map(Uuid::to_string).collect());
        query.metadata = self.metadata.clone().unwrap_or_default().0;
        query.values = self.values.clone().unwrap_or_default().0;
        if !query.values.is_empty() {
            // Clients search for values in the form in which they read them, which depends on the graph.
            for (name, served) in &caller.app.graphs {
                let mut values = Value::Object(query.values.clone());
                served.message_paths.filter(&mut values);
                if let Value::Object(values) = values {
                    query.values_by_graph.insert(name.clone(), values);
                }
            }
        }
        query.status = self.status;
        query.sort_by = match self.sort_by.as_deref().unwrap_or("created_at") {
            "created_at" => SortBy::Created,
            "updated_at" => SortBy::Updated,
            "state_updated_at" => SortBy::StateUpdated,
            "thread_id" => SortBy::Id,
            "status" => SortBy::Status,
            other => return Err(unknown_sort(other, "thread_id, status, created_at, updated_at or state_updated_at")),
        };
        let descending = is_descending(self.sort_order.as_deref())?;
        query.order = if descending { Order::Descending } else { Order::Ascending };
        Ok(query)
    }
}

pub(crate) async fn search(
    caller: Caller,
    OptionalBody(body): OptionalBody<ThreadSearchBody>,
) -> ApiResult<As<Vec<Selected<ThreadObject>>>> {
    let page = Page::new(&caller, body.limit, body.offset, 10)?;
    let paths = body.extract.as_ref().map_or(0, Map::len);
    if paths > MAX_EXTRACTED {
        return Err(ApiError::invalid(format!("`extract`: {paths} paths are too many: send at most {MAX_EXTRACTED}")));
    }
    let mut query = body.query(&caller).await?;
    (query.limit, query.offset) = (page.probe(), page.offset);
    let wants = |field: &str| body.select.as_ref().is_none_or(|fields| fields.contains(field));
    query.with_values = wants("values") || body.extract.is_some();
    Selected::<ThreadObject>::check(body.select.as_ref())?;
    let found = caller.app.runs.search_threads(query).await.map_err(refused)?;
    // Extracted values are returned in addition to the selected fields.
    let fields =
        body.select.clone().map(|fields| fields.into_iter().chain(["extracted".to_owned()]).collect::<BTreeSet<_>>());
    let row = |row: &ThreadRow| {
        let mut object = thread(&caller.app, row);
        object.extracted = body.extract.as_ref().map(|paths| extract(&json!(object), paths));
        Selected::of(&object, fields.as_ref())
    };
    Ok(page.answer(found.iter().map(row).collect()))
}

/// Maximum number of paths of a search, as in LangGraph. Each path can copy the whole thread.
const MAX_EXTRACTED: usize = 10;

/// Returns the values at paths of a thread, such as `values.messages[-1].content`.
fn extract(thread: &Value, paths: &Map<String, Value>) -> Map<String, Value> {
    let found = paths.iter().map(|(alias, path)| {
        let value = path.as_str().and_then(|path| at(thread, path)).cloned().unwrap_or_default();
        (alias.clone(), value)
    });
    found.collect()
}

fn at<'a>(value: &'a Value, path: &str) -> Option<&'a Value> {
    let steps = path.split(['.', '[']).map(|step| step.trim_end_matches(']')).filter(|step| !step.is_empty());
    steps.into_iter().try_fold(value, |value, step| match value {
        Value::Object(fields) => fields.get(step),
        Value::Array(items) => {
            let index: i64 = step.parse().ok()?;
            let from_end = || items.len().checked_sub(usize::try_from(index.unsigned_abs()).ok()?);
            items.get(usize::try_from(index).ok().or_else(from_end)?)
        }
        _ => None,
    })
}

pub(crate) async fn count(caller: Caller, OptionalBody(body): OptionalBody<ThreadSearchBody>) -> ApiResult<Json<u64>> {
    let query = body.query(&caller).await?;
    Ok(Json(caller.app.runs.count_threads(query).await.map_err(refused)?))
}

/// The threads to prune.
#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(rename = "ThreadPrune")]
pub(crate) struct ThreadPruneBody {
    thread_ids: Vec<Uuid>,
    #[serde(default)]
    strategy: PruneStrategy,
}

#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum PruneStrategy {
    /// Deletes the thread.
    #[default]
    Delete,
    /// Deletes all checkpoints except the latest. If the graph is not finished, also keeps the newest checkpoint before
    /// the latest run.
    KeepLatest,
}

/// The number of pruned threads.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "ThreadsPruned")]
pub(crate) struct Pruned {
    pruned_count: u64,
}

pub(crate) async fn prune(caller: Caller, JsonBody(body): JsonBody<ThreadPruneBody>) -> ApiResult<Json<Pruned>> {
    caller.may(Resource::Threads, Action::Delete).await?;
    let (most, count) = (caller.app.limits.page, body.thread_ids.len());
    if count > most {
        return Err(ApiError::invalid(format!("`thread_ids`: {count} threads are too many: send at most {most}")));
    }
    let mut rows = Vec::new();
    for thread in &body.thread_ids {
        // Threads that do not exist, or belong to another user, are skipped, as in LangGraph.
        let Ok(row) = caller.thread(&thread.to_string(), Action::Delete).await else { continue };
        if body.strategy == PruneStrategy::KeepLatest {
            caller.app.check_own(&row, "prune", PRUNE_ELSEWHERE)?;
        }
        rows.push(row);
    }
    let mut pruned_count = 0_u64;
    for row in rows {
        match body.strategy {
            PruneStrategy::Delete => {
                pruned_count += u64::from(caller.app.remove_thread(&row).await?);
            }
            PruneStrategy::KeepLatest => {
                let prune = Prune { threads: Some(vec![row.id]), strategy: Strategy::KeepLatest, older_than: None };
                let admin = caller.app.runs.admin().map_err(|error| saver(&error))?;
                admin.prune(prune).await.map_err(|error| saver(&error))?;
                pruned_count += 1;
            }
        }
    }
    Ok(Json(Pruned { pruned_count }))
}
