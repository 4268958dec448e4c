//! Assistants, which are graphs with a configuration. Each change of an assistant creates a version.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};

use axum::Json;
use axum::extract::Path;
use axum::response::NoContent;
use hier_core::runs::{Assistant, AssistantPatch, AssistantQuery, Assistants, NewAssistant, ThreadQuery};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use uuid::Uuid;

use super::page::{self, Page, unknown_sort};
use super::run_plan::check_limit;
use crate::answer::{As, Selected};
use crate::app::{Caller, matches};
use crate::auth::{Action, Resource};
use crate::body::{JsonBody, OptionalBody, SearchFilter};
use crate::drawing::{Drawing, SubgraphDepth, drawing};
use crate::error::{ApiError, ApiResult};
use crate::fault::{already_exists, refused};
use crate::graphs::Schemas;
use crate::query::Query;
use crate::time::iso;

/// A graph with a configuration.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Assistant")]
pub(crate) struct AssistantObject {
    assistant_id: String,
    graph_id: String,
    config: Map<String, Value>,
    context: Value,
    metadata: Map<String, Value>,
    name: String,
    created_at: String,
    updated_at: String,
    version: u64,
    description: Option<String>,
}

fn object(assistant: &Assistant) -> AssistantObject {
    let context = if assistant.context.is_null() { json!({}) } else { assistant.context.clone() };
    AssistantObject {
        assistant_id: assistant.id.clone(),
        graph_id: assistant.graph.clone(),
        config: assistant.config.clone(),
        context,
        metadata: assistant.metadata.clone(),
        name: assistant.name.clone(),
        created_at: iso(assistant.created),
        updated_at: iso(assistant.updated),
        version: assistant.version,
        description: assistant.description.clone(),
    }
}

/// The body that creates or changes an assistant.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default)]
#[schemars(rename = "AssistantCreate")]
pub(crate) struct AssistantBody {
    assistant_id: Option<Uuid>,
    graph_id: Option<String>,
    config: Option<Map<String, Value>>,
    context: Option<Value>,
    metadata: Option<Map<String, Value>>,
    name: Option<String>,
    description: Option<String>,
    if_exists: Option<IfExistsWord>,
}

/// Maximum number of assistants per user.
const MOST: usize = 1_000;
/// Name of an assistant that is created without one.
const UNNAMED: &str = "Untitled";

/// Determines the response if an object with the id exists: an error (`raise`) or the object (`do_nothing`).
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "IfExists")]
pub(crate) enum IfExistsWord {
    #[default]
    Raise,
    DoNothing,
}

/// Copies `config.configurable` to `context` or the reverse, because both are names of the same value. Fails if the
/// request has both.
fn mirrored(config: Map<String, Value>, context: Value) -> ApiResult<(Map<String, Value>, Value)> {
    let configurable = config.get("configurable").filter(|value| value.as_object().is_some_and(|map| !map.is_empty()));
    Ok(match (configurable, &context) {
        (Some(_), Value::Object(fields)) if !fields.is_empty() => {
            return Err(ApiError::bad_request(
                "`config.configurable` and `context` are the same value: send only `context`",
            ));
        }
        (Some(configurable), Value::Null) => {
            let context = configurable.clone();
            (config, context)
        }
        (None, Value::Object(fields)) if !fields.is_empty() => {
            let mut config = config;
            config.insert("configurable".to_owned(), context.clone());
            (config, context)
        }
        _ => (config, context),
    })
}

/// Changes the configuration of an assistant. If the request has only one of `config` and `context`, the value that
/// both name, or the other fields of `config`, stay the same.
fn changed(
    old: &Assistant,
    config: Option<Map<String, Value>>,
    context: Option<Value>,
) -> ApiResult<(Map<String, Value>, Value)> {
    match (config, context) {
        (Some(config), None) if config.get("configurable").is_none_or(Value::is_null) => {
            mirrored(config, old.context.clone())
        }
        (None, Some(context)) => {
            let mut config = old.config.clone();
            config.remove("configurable");
            mirrored(config, context)
        }
        (config, context) => mirrored(config.unwrap_or_default(), context.unwrap_or_default()),
    }
}

fn check_config(config: Option<&Map<String, Value>>) -> ApiResult<()> {
    config.map_or(Ok(()), check_limit).map_err(ApiError::invalid)?;
    match config.and_then(|config| config.get("configurable")) {
        None | Some(Value::Null | Value::Object(_)) => Ok(()),
        Some(_) => Err(ApiError::invalid("`config.configurable` is not an object: write `{\"name\": value}`")),
    }
}

pub(crate) async fn create(
    caller: Caller,
    JsonBody(body): JsonBody<AssistantBody>,
) -> ApiResult<Json<AssistantObject>> {
    let filter = caller.may(Resource::Assistants, Action::Create).await?;
    let graph =
        body.graph_id.ok_or_else(|| ApiError::invalid("`graph_id` is missing: name the graph of the assistant"))?;
    caller.app.graph(&graph)?;
    check_config(body.config.as_ref())?;
    caller.app.default_assistants().check_metadata(None, body.metadata.as_ref())?;
    let (config, context) = mirrored(body.config.unwrap_or_default(), body.context.unwrap_or_default())?;
    let mut new = NewAssistant::new(body.assistant_id.unwrap_or_else(Uuid::new_v4).to_string(), graph);
    let name = body.name.unwrap_or_else(|| UNNAMED.to_owned());
    (new.config, new.context, new.name, new.description) = (config, context, Some(name), body.description);
    new.metadata = body.metadata.unwrap_or_default();
    new.metadata.extend(filter);
    new.user.clone_from(&caller.user.identity);
    let assistants = Assistants::of(&*caller.app.runs);
    let id = new.id.clone();
    if assistants.get(&id).await.map_err(refused)?.is_none() {
        if caller.app.default_assistants().contains(&id) {
            return Err(ApiError::invalid(format!(
                "`assistant_id`: {id} belongs to a graph of this server: use another one"
            )));
        }
        check_count(&caller).await?;
    }
    match assistants.create(new).await {
        Ok(made) => Ok(Json(object(&made))),
        Err(error) if already_exists(&error) && body.if_exists == Some(IfExistsWord::DoNothing) => {
            // The response reveals neither the assistant of another user nor its absence.
            let found = caller.assistant(&id, Action::Read).await.map_err(|_| refused(error))?;
            Ok(Json(object(&found)))
        }
        Err(error) => Err(refused(error)),
    }
}

/// Refuses a further assistant of a user who has too many. Without authentication, all clients are trusted.
async fn check_count(caller: &Caller) -> ApiResult<()> {
    let user = &caller.user.identity;
    if user.is_empty() || Assistants::of(&*caller.app.runs).count_of(user).await.map_err(refused)? < MOST {
        return Ok(());
    }
    Err(ApiError::conflict(format!("this user has {MOST} assistants, which is the limit: delete some")))
}

/// A search for assistants.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default)]
#[schemars(rename = "AssistantSearch")]
pub(crate) struct AssistantSearchBody {
    metadata: Option<SearchFilter>,
    graph_id: Option<String>,
    name: Option<String>,
    limit: Option<usize>,
    offset: Option<usize>,
    sort_by: Option<String>,
    sort_order: Option<String>,
    #[schemars(with = "Option<Vec<String>>")]
    select: Option<BTreeSet<String>>,
}

async fn find(caller: &Caller, body: &AssistantSearchBody) -> ApiResult<Vec<Assistant>> {
    let filter = caller.may(Resource::Assistants, Action::Search).await?;
    let mut query = AssistantQuery::default();
    query.graph.clone_from(&body.graph_id);
    query.name.clone_from(&body.name);
    query.metadata = body.metadata.clone().unwrap_or_default().0;
    let mut found = Assistants::of(&*caller.app.runs).search(&query).await.map_err(refused)?;
    let system = caller.app.default_assistants().ids();
    found.retain(|assistant| system.contains(&assistant.id) || matches(&assistant.metadata, &filter));
    Ok(found)
}

fn sort(found: &mut [Assistant], body: &AssistantSearchBody) -> ApiResult<()> {
    let by: fn(&Assistant, &Assistant) -> Ordering = match body.sort_by.as_deref().unwrap_or("created_at") {
        "created_at" => |a, b| a.created.cmp(&b.created),
        "updated_at" => |a, b| a.updated.cmp(&b.updated),
        "name" => |a, b| a.name.cmp(&b.name),
        "graph_id" => |a, b| a.graph.cmp(&b.graph),
        "assistant_id" => |a, b| a.id.cmp(&b.id),
        other => return Err(unknown_sort(other, "assistant_id, created_at, updated_at, name or graph_id")),
    };
    page::sort(found, by, body.sort_order.as_deref())
}

pub(crate) async fn search(
    caller: Caller,
    OptionalBody(body): OptionalBody<AssistantSearchBody>,
) -> ApiResult<As<Vec<Selected<AssistantObject>>>> {
    let page = Page::new(&caller, body.limit, body.offset, 10)?;
    let mut found = find(&caller, &body).await?;
    sort(&mut found, &body)?;
    Selected::<AssistantObject>::check(body.select.as_ref())?;
    let rows = found.iter().skip(page.offset).take(page.probe());
    Ok(page.answer(rows.map(|row| Selected::of(&object(row), body.select.as_ref())).collect()))
}

pub(crate) async fn count(
    caller: Caller,
    OptionalBody(body): OptionalBody<AssistantSearchBody>,
) -> ApiResult<Json<usize>> {
    Ok(Json(find(&caller, &body).await?.len()))
}

pub(crate) async fn get(caller: Caller, Path(assistant): Path<String>) -> ApiResult<Json<AssistantObject>> {
    Ok(Json(object(&caller.assistant(&assistant, Action::Read).await?)))
}

pub(crate) async fn patch(
    caller: Caller,
    Path(assistant): Path<String>,
    JsonBody(body): JsonBody<AssistantBody>,
) -> ApiResult<Json<AssistantObject>> {
    let old = caller.assistant(&assistant, Action::Update).await?;
    let defaults = caller.app.default_assistants();
    if let Some(graph) = &body.graph_id {
        caller.app.graph(graph)?;
        defaults.check_graph(&old, "graph_id", graph)?;
    }
    check_config(body.config.as_ref())?;
    defaults.check_metadata(Some(&old), body.metadata.as_ref())?;
    let mut patch = AssistantPatch::default();
    if body.config.is_some() || body.context.is_some() {
        let (config, context) = changed(&old, body.config, body.context)?;
        (patch.config, patch.context) = (Some(config), Some(context));
    }
    (patch.graph, patch.name, patch.description) = (body.graph_id, body.name, body.description);
    patch.metadata = body.metadata.unwrap_or_default();
    patch.metadata.extend(caller.may(Resource::Assistants, Action::Update).await?);
    let changed = Assistants::of(&*caller.app.runs).update(&old.id, patch).await.map_err(refused)?;
    Ok(Json(object(&changed)))
}

/// Options of the deletion of an assistant.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default)]
pub(crate) struct DeleteQuery {
    /// If true, also deletes the threads whose last run used the assistant.
    delete_threads: bool,
}

pub(crate) async fn delete(
    caller: Caller,
    Path(assistant): Path<String>,
    Query(query): Query<DeleteQuery>,
) -> ApiResult<NoContent> {
    let found = caller.assistant(&assistant, Action::Delete).await?;
    if query.delete_threads {
        delete_threads(&caller, &found.id).await?;
    }
    Assistants::of(&*caller.app.runs).delete(&found.id).await.map_err(refused)?;
    Ok(NoContent)
}

async fn delete_threads(caller: &Caller, assistant: &str) -> ApiResult<()> {
    let access = caller.may(Resource::Threads, Action::Delete).await?;
    loop {
        let mut query = ThreadQuery::default();
        query.metadata.insert("assistant_id".to_owned(), assistant.into());
        (query.access, query.limit, query.with_values) = (access.clone(), 100, false);
        let threads = caller.app.runs.search_threads(query).await.map_err(refused)?;
        if threads.is_empty() {
            return Ok(());
        }
        for thread in threads {
            caller.app.remove_thread(&thread).await?;
        }
    }
}

pub(crate) async fn versions(
    caller: Caller,
    Path(assistant): Path<String>,
    OptionalBody(body): OptionalBody<AssistantSearchBody>,
) -> ApiResult<Json<Vec<AssistantObject>>> {
    let found = caller.assistant(&assistant, Action::Read).await?;
    let page = Page::new(&caller, body.limit, body.offset, 10)?;
    let metadata = body.metadata.unwrap_or_default().0;
    let versions = Assistants::of(&*caller.app.runs).versions(&found.id).await.map_err(refused)?;
    let wanted = versions.iter().filter(|version| matches(&version.metadata, &metadata));
    Ok(Json(wanted.skip(page.offset).take(page.limit).map(object).collect()))
}

/// Selects the version that becomes the latest.
#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(rename = "AssistantVersion")]
pub(crate) struct LatestBody {
    version: u64,
}

pub(crate) async fn latest(
    caller: Caller,
    Path(assistant): Path<String>,
    JsonBody(body): JsonBody<LatestBody>,
) -> ApiResult<Json<AssistantObject>> {
    let found = caller.assistant(&assistant, Action::Update).await?;
    let assistants = Assistants::of(&*caller.app.runs);
    let versions = assistants.versions(&found.id).await.map_err(refused)?;
    let missing = || ApiError::not_found(format!("Assistant with ID {} has no version {}", found.id, body.version));
    let wanted = versions.iter().find(|known| known.version == body.version).ok_or_else(missing)?;
    caller.app.default_assistants().check_graph(&found, "version", &wanted.graph)?;
    Ok(Json(object(&assistants.set_latest(&found.id, body.version).await.map_err(refused)?)))
}

/// Options of the drawing of a graph.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default)]
pub(crate) struct DrawingQuery {
    /// The subgraphs to draw open: all (`true`), none (`false`), or those on the first levels (a number).
    xray: SubgraphDepth,
}

/// Draws the graph of an assistant. This is the only route for assistants that also accepts the name of a graph.
pub(crate) async fn graph(
    caller: Caller,
    Path(assistant): Path<String>,
    Query(query): Query<DrawingQuery>,
) -> ApiResult<Json<Drawing>> {
    let found = if caller.app.graphs.contains_key(&assistant) {
        caller.assistant_or_graph(&assistant).await?
    } else {
        caller.assistant(&assistant, Action::Read).await?
    };
    Ok(Json(drawing(caller.app.graph(&found.graph)?.graph.spec(), query.xray)))
}

/// The schemas of an assistant's graph.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct AssistantSchemas {
    graph_id: String,
    #[serde(flatten)]
    schemas: Schemas,
}

pub(crate) async fn schemas(caller: Caller, Path(assistant): Path<String>) -> ApiResult<Json<AssistantSchemas>> {
    let found = caller.assistant(&assistant, Action::Read).await?;
    let schemas = caller.app.graph(&found.graph)?.schemas();
    Ok(Json(AssistantSchemas { graph_id: found.graph, schemas }))
}

/// Options of the list of subgraphs.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default)]
pub(crate) struct SubgraphsQuery {
    /// If true, also lists the subgraphs of subgraphs.
    recurse: bool,
}

pub(crate) async fn subgraphs(
    caller: Caller,
    Path(assistant): Path<String>,
    Query(query): Query<SubgraphsQuery>,
) -> ApiResult<Json<BTreeMap<String, Schemas>>> {
    subgraphs_of(&caller, &assistant, None, query.recurse).await
}

pub(crate) async fn subgraph(
    caller: Caller,
    Path((assistant, namespace)): Path<(String, String)>,
    Query(query): Query<SubgraphsQuery>,
) -> ApiResult<Json<BTreeMap<String, Schemas>>> {
    subgraphs_of(&caller, &assistant, Some(&namespace), query.recurse).await
}

async fn subgraphs_of(
    caller: &Caller,
    assistant: &str,
    namespace: Option<&str>,
    recurse: bool,
) -> ApiResult<Json<BTreeMap<String, Schemas>>> {
    let found = caller.assistant(assistant, Action::Read).await?;
    Ok(Json(caller.app.graph(&found.graph)?.subgraphs(namespace, recurse)))
}
