//! The memory store, which threads share.

use axum::Json;
use axum::response::NoContent;
use hier_core::store::{Index, Item, Namespaces, Op, OpResult, Search};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::app::Caller;
use crate::auth::Action;
use crate::body::{JsonBody, OptionalBody};
use crate::error::{ApiError, ApiResult};
use crate::fault;
use crate::query::Query;
use crate::time::{iso, time_to_live};

/// An item of the store.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "StoreItem")]
pub(crate) struct ItemObject {
    namespace: Vec<String>,
    key: String,
    value: Map<String, Value>,
    created_at: String,
    updated_at: String,
}

/// An item that a search found.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "StoreFoundItem")]
struct FoundItem {
    #[serde(flatten)]
    item: ItemObject,
    /// Similarity to the query, from −1 to 1. Null without a text query, or if the item has no vector.
    score: Option<f64>,
}

fn object(item: Item) -> ItemObject {
    let Item { namespace, key, value, created_at, updated_at, .. } = item;
    ItemObject { namespace, key, value, created_at: iso(created_at), updated_at: iso(updated_at) }
}

/// Items that a search found.
#[derive(Debug, Default, Serialize, JsonSchema)]
#[schemars(rename = "StoreFound")]
pub(crate) struct FoundItems {
    items: Vec<FoundItem>,
}

/// The namespaces of the store.
#[derive(Debug, Default, Serialize, JsonSchema)]
#[schemars(rename = "StoreNamespaceList")]
pub(crate) struct NamespaceList {
    namespaces: Vec<Vec<String>>,
}

/// Checks the labels of a namespace. Labels cannot contain periods, because URLs join labels with periods.
fn labels(namespace: &[String]) -> ApiResult<()> {
    match namespace.iter().find(|label| label.is_empty() || label.contains('.')) {
        Some(label) => {
            let text = "must be a non-empty string without periods: write `%2E` for a period in the name of a user";
            Err(ApiError::invalid(format!("Namespace label '{label}' {text}")))
        }
        None => Ok(()),
    }
}

/// Checks that the caller may use a namespace. Namespaces of the framework are reserved.
async fn allow(caller: &Caller, action: Action, namespace: &[String]) -> ApiResult<()> {
    if namespace.first().is_some_and(|label| label == "hier") {
        return Err(ApiError::invalid("Namespaces that begin with 'hier' belong to the framework"));
    }
    caller.may_in_store(action, namespace).await
}

async fn one(caller: &Caller, op: Op) -> ApiResult<OpResult> {
    let mut results = caller.app.store.batch(vec![op]).await.map_err(fault::store)?;
    results.pop().ok_or_else(|| ApiError::internal(&"the store returned no result"))
}

/// The body that stores an item.
#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(rename = "StorePut")]
pub(crate) struct PutBody {
    namespace: Vec<String>,
    key: String,
    value: Map<String, Value>,
    #[serde(default)]
    index: Option<IndexBody>,
    /// Time to live of the item, in minutes.
    #[serde(default)]
    ttl: Option<f64>,
}

/// The fields that a search by meaning compares: none (`false`), the configured ones (`true`), or a list.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(untagged, expecting = "expected true, false or a list of fields")]
#[schemars(rename = "StoreIndex")]
enum IndexBody {
    Switch(bool),
    Fields(Vec<String>),
}

pub(crate) async fn put(caller: Caller, JsonBody(body): JsonBody<PutBody>) -> ApiResult<NoContent> {
    labels(&body.namespace)?;
    allow(&caller, Action::Update, &body.namespace).await?;
    let op = Op::Put {
        namespace: body.namespace,
        key: body.key,
        value: Some(body.value),
        index: match body.index {
            None | Some(IndexBody::Switch(true)) => Index::Configured,
            Some(IndexBody::Switch(false)) => Index::None,
            Some(IndexBody::Fields(fields)) => Index::Fields(fields),
        },
        time_to_live: body.ttl.map(time_to_live).transpose()?,
    };
    one(&caller, op).await.map(|_| NoContent)
}

/// Selects an item.
#[derive(Debug, Deserialize, JsonSchema)]
pub(crate) struct GetQuery {
    /// The labels of the item's namespace, joined by periods.
    #[serde(default)]
    namespace: String,
    /// The key of the item.
    key: String,
    /// If true, the time to live begins again. Defaults to the store's setting.
    #[serde(default)]
    refresh_ttl: Option<bool>,
}

pub(crate) async fn get(caller: Caller, Query(query): Query<GetQuery>) -> ApiResult<Json<Option<ItemObject>>> {
    let GetQuery { namespace, key, refresh_ttl: refresh } = query;
    let namespace = namespace.split('.');
    let namespace: Vec<String> = namespace.filter(|label| !label.is_empty()).map(str::to_owned).collect();
    allow(&caller, Action::Read, &namespace).await?;
    match one(&caller, Op::Get { namespace, key, refresh }).await? {
        OpResult::Item(Some(item)) => Ok(Json(Some(object(item)))),
        _ => Ok(Json(None)),
    }
}

/// Selects the item to delete.
#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(rename = "StoreDelete")]
pub(crate) struct DeleteBody {
    #[serde(default)]
    namespace: Vec<String>,
    key: String,
}

pub(crate) async fn delete(caller: Caller, JsonBody(body): JsonBody<DeleteBody>) -> ApiResult<NoContent> {
    labels(&body.namespace)?;
    allow(&caller, Action::Delete, &body.namespace).await?;
    let DeleteBody { namespace, key } = body;
    let op = Op::Put { namespace, key, value: None, index: Index::Configured, time_to_live: None };
    one(&caller, op).await.map(|_| NoContent)
}

/// A search for items.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default)]
#[schemars(rename = "StoreSearch")]
pub(crate) struct StoreSearchBody {
    namespace_prefix: Option<Vec<String>>,
    filter: Option<Map<String, Value>>,
    limit: Option<usize>,
    offset: Option<usize>,
    query: Option<String>,
    refresh_ttl: Option<bool>,
}

pub(crate) async fn search(
    caller: Caller,
    OptionalBody(body): OptionalBody<StoreSearchBody>,
) -> ApiResult<Json<FoundItems>> {
    let prefix = body.namespace_prefix.unwrap_or_default();
    allow(&caller, Action::Search, &prefix).await?;
    let op = Op::Search(Search {
        prefix,
        query: body.query,
        filter: body.filter.unwrap_or_default(),
        limit: limit(&caller, body.limit, 10)?,
        offset: body.offset.unwrap_or(0),
        refresh: body.refresh_ttl,
    });
    let OpResult::Items(items) = one(&caller, op).await? else { return Ok(Json(FoundItems::default())) };
    let scored = items.into_iter().map(|item| FoundItem { score: item.score, item: object(item) });
    Ok(Json(FoundItems { items: scored.collect() }))
}

/// A search for namespaces.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default)]
#[schemars(rename = "StoreNamespaces")]
pub(crate) struct NamespacesBody {
    prefix: Option<Vec<String>>,
    suffix: Option<Vec<String>>,
    max_depth: Option<usize>,
    limit: Option<usize>,
    offset: Option<usize>,
}

pub(crate) async fn namespaces(
    caller: Caller,
    OptionalBody(body): OptionalBody<NamespacesBody>,
) -> ApiResult<Json<NamespaceList>> {
    let prefix = body.prefix.unwrap_or_default();
    allow(&caller, Action::Search, &prefix).await?;
    let op = Op::Namespaces(Namespaces {
        prefix,
        suffix: body.suffix.unwrap_or_default(),
        max_depth: body.max_depth,
        limit: limit(&caller, body.limit, 100)?,
        offset: body.offset.unwrap_or(0),
    });
    let OpResult::Namespaces(namespaces) = one(&caller, op).await? else { return Ok(Json(NamespaceList::default())) };
    Ok(Json(NamespaceList { namespaces }))
}

fn limit(caller: &Caller, limit: Option<usize>, default: usize) -> ApiResult<usize> {
    super::page::Page::new(caller, limit, None, default).map(|page| page.limit)
}
