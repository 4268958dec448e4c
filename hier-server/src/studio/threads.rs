//! Lists threads for the studio. If the server has no graphs, this includes threads that have checkpoints but no row.

use axum::Json;
use axum::extract::Path;
use hier_core::checkpoint::{Checkpoint, ThreadInfo};
use hier_core::runs::{Run, RunQuery, SortBy, ThreadQuery, ThreadRow};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::app::{Caller, matches};
use crate::auth::{Action, Resource};
use crate::error::{ApiError, ApiResult};
use crate::fault::{refused, saver};
use crate::query::Query;
use crate::time::iso;
use crate::wire::message_paths::MessagePaths;
use crate::wire::row;

/// Maximum number of threads that a search reads, newest first.
const MAX_SEARCHED: usize = 10_000;
/// Maximum number of a thread's runs in a response, newest first.
const RUNS: usize = 50;

/// A thread. `row` is `None` if the thread has only checkpoints.
pub(super) struct StudioThread {
    pub(super) id: String,
    pub(super) row: Option<ThreadRow>,
}

/// Returns the thread with this id, which need not be a UUID. Fails with 404 if the thread does not exist, or if the
/// caller has no access to it.
pub(super) async fn find(caller: &Caller, id: &str, action: Action) -> ApiResult<StudioThread> {
    let filter = caller.may(Resource::Threads, action).await?;
    // The query omits the values, because they may be large.
    let mut query = ThreadQuery::default();
    (query.ids, query.with_values) = (Some(vec![id.to_owned()]), false);
    let row = caller.app.runs.search_threads(query).await.map_err(refused)?.pop();
    let exists = match &row {
        Some(row) => matches(&row.metadata, &filter),
        None => filter.is_empty() && latest(caller, id).await?.is_some(),
    };
    if exists { Ok(StudioThread { id: id.to_owned(), row }) } else { Err(ApiError::no_thread(id)) }
}

async fn latest(caller: &Caller, id: &str) -> ApiResult<Option<Checkpoint>> {
    let found = caller.app.runs.get(id, "", None).await.map_err(|error| saver(&error))?;
    Ok(found.map(|saved| saved.checkpoint))
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct ThreadsQuery {
    /// Words that the listed threads must contain.
    q: String,
    limit: Option<usize>,
    offset: usize,
}

/// Lists the threads that contain all words of `q` in their id, graph, status or metadata, newest first.
pub(super) async fn list(caller: Caller, Query(query): Query<ThreadsQuery>) -> ApiResult<Json<Value>> {
    let filter = caller.may(Resource::Threads, Action::Search).await?;
    let words = query.q.to_lowercase();
    let words: Vec<&str> = words.split_whitespace().collect();
    let (limit, offset) = (query.limit.unwrap_or(100).min(MAX_SEARCHED), query.offset);
    let mut found = rows(&caller, filter).await?;
    found.retain(|thread| {
        let text = thread.to_string().to_lowercase();
        words.iter().all(|word| text.contains(word))
    });
    let total = found.len();
    let page: Vec<Value> = found.into_iter().skip(offset).take(limit).collect();
    Ok(Json(json!({ "threads": page, "total": total })))
}

async fn rows(caller: &Caller, filter: Map<String, Value>) -> ApiResult<Vec<Value>> {
    let mut query = ThreadQuery::default();
    (query.limit, query.with_values, query.sort_by) = (MAX_SEARCHED, false, SortBy::Updated);
    let is_for_all = filter.is_empty();
    query.metadata = filter;
    let rows = caller.app.runs.search_threads(query).await.map_err(refused)?;
    let mut threads: Vec<Value> = rows.iter().map(brief).collect();
    if is_for_all && caller.app.graphs.is_empty() {
        let admin = caller.app.runs.admin().map_err(|error| saver(&error))?;
        let infos = admin.threads(Some(MAX_SEARCHED)).await.map_err(|error| saver(&error))?;
        let known: std::collections::HashSet<&str> = rows.iter().map(|row| &*row.id).collect();
        threads.extend(infos.iter().filter(|info| !known.contains(&*info.thread)).map(brief_info));
        threads.sort_by(|a, b| b["updated_at"].as_str().cmp(&a["updated_at"].as_str()));
    }
    Ok(threads)
}

fn brief(row: &ThreadRow) -> Value {
    json!({
        "thread_id": row.id,
        "status": row.status.name(),
        "graph": row.metadata.get("graph_id"),
        "updated_at": iso(row.updated),
        "metadata": row.metadata,
    })
}

/// Formats a thread without a row.
fn brief_info(info: &ThreadInfo) -> Value {
    let latest = info.latest.as_ref();
    json!({
        "thread_id": &*info.thread,
        "status": if info.holder.is_some() { "busy" } else { latest.map_or("idle", status) },
        "graph": latest.map(|latest| latest.schema.graph.clone()),
        "updated_at": latest.map(|latest| iso(latest.created_at())),
        "metadata": {},
    })
}

fn status(latest: &Checkpoint) -> &'static str {
    let agenda = &latest.agenda;
    let waits = agenda.start || !agenda.ready.is_empty() || !agenda.sends.is_empty();
    if waits { "interrupted" } else { "idle" }
}

/// Returns a thread with its runs.
pub(super) async fn get(caller: Caller, Path(id): Path<String>) -> ApiResult<Json<Value>> {
    let found = find(&caller, &id, Action::Read).await?;
    let Some(thread) = &found.row else {
        let latest = latest(&caller, &id).await?;
        let mut info = ThreadInfo::new(id.as_str());
        info.latest = latest;
        let mut shown = brief_info(&info);
        (shown["runs"], shown["last_event"]) = (json!([]), 0.into());
        return Ok(Json(shown));
    };
    let mut query = RunQuery::thread(&found.id);
    query.limit = RUNS;
    let runs = caller.app.runs.runs(query).await.map_err(refused)?;
    let mut shown = brief(thread);
    shown["error"] = json!(thread.error);
    shown["last_event"] = thread.last_event.into();
    shown["runs"] = runs.iter().map(|of| run(&caller.app.message_paths(&of.graph), of)).collect();
    Ok(Json(shown))
}

/// Formats a run without its request, because the request may be large.
fn run(message_paths: &MessagePaths, run: &Run) -> Value {
    let mut shown = json!(row::run(message_paths, run));
    if let Some(fields) = shown.as_object_mut() {
        fields.remove("kwargs");
        fields.insert("attempts".to_owned(), run.attempts.into());
        fields.insert("error".to_owned(), json!(run.error));
    }
    shown
}
