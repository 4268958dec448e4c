//! Reads checkpoints in their stored form, which needs no graph. A list of checkpoints omits their values, so that it
//! is cheap.

use axum::Json;
use axum::extract::Path;
use hier_core::checkpoint::{Checkpoint, ListQuery, Saved, TaskWrites, codec, hide_newer_secrets, slot};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::threads::find;
use crate::app::Caller;
use crate::auth::Action;
use crate::body::id;
use crate::error::{ApiError, ApiResult};
use crate::fault::saver;
use crate::query::Query;
use crate::time::iso;

/// Maximum number of checkpoints in a response.
const PAGE: usize = 1_000;
/// Prefix of the channels that belong to the engine.
const OWN: &str = "__";

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct CheckpointsQuery {
    limit: Option<usize>,
    ns: String,
    /// Returns only checkpoints before this one.
    before: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct NamespaceQuery {
    ns: String,
}

/// Lists checkpoints without their values, newest first.
pub(super) async fn list(
    caller: Caller,
    Path(thread): Path<String>,
    Query(query): Query<CheckpointsQuery>,
) -> ApiResult<Json<Value>> {
    let found = find(&caller, &thread, Action::Read).await?;
    let limit = query.limit.unwrap_or(200).clamp(1, PAGE);
    let mut wanted = ListQuery::thread(&found.id);
    wanted.namespace = Some(query.ns);
    wanted.before = query.before.as_deref().map(|before| id("checkpoint", before)).transpose()?;
    wanted.limit = Some(limit);
    let listed = caller.app.runs.list(wanted).await.map_err(|error| saver(&error))?;
    let more = listed.len() == limit;
    let checkpoints: Vec<Value> = listed.iter().map(|listed| brief(&listed.checkpoint)).collect();
    Ok(Json(json!({ "checkpoints": checkpoints, "more": more })))
}

/// Returns a checkpoint with its values and the results of its tasks. The id `latest` selects the newest checkpoint.
pub(super) async fn get(
    caller: Caller,
    Path((thread, checkpoint)): Path<(String, String)>,
    Query(query): Query<NamespaceQuery>,
) -> ApiResult<Json<Value>> {
    let found = find(&caller, &thread, Action::Read).await?;
    let wanted = if checkpoint == "latest" { None } else { Some(id("checkpoint", &checkpoint)?) };
    let saved = caller.app.runs.get(&found.id, &query.ns, wanted).await.map_err(|error| saver(&error))?;
    match (saved, wanted) {
        (Some(mut saved), _) => {
            hide_newer(&caller, &found.id, &query.ns, &mut saved).await?;
            let message_paths = found.row.as_ref().map(|row| caller.app.message_paths_of(row)).unwrap_or_default();
            let levels: Vec<&str> = query.ns.split('|').filter(|level| !level.is_empty()).collect();
            Ok(Json(whole(&saved, &|values| message_paths.state(&levels, values))))
        }
        (None, None) => Ok(Json(Value::Null)),
        (None, Some(id)) => {
            Err(ApiError::not_found(format!("the thread has no checkpoint {id}: it may have been pruned")))
        }
    }
}

/// Hides the channels that became secret after the checkpoint was written.
async fn hide_newer(caller: &Caller, thread: &str, namespace: &str, saved: &mut Saved) -> ApiResult<()> {
    let checkpoints = caller.app.runs.clone().as_checkpointer();
    let hidden = hide_newer_secrets(&checkpoints, thread, namespace, &mut saved.checkpoint.schema).await;
    hidden.map_err(|error| saver(&error))
}

fn brief(checkpoint: &Checkpoint) -> Value {
    json!({
        "id": checkpoint.id,
        "parent": checkpoint.parent,
        "step": checkpoint.step,
        "source": checkpoint.source.name(),
        "at": iso(checkpoint.created_at()),
        "next": checkpoint.agenda.nodes(),
        "changed": checkpoint.changed_channels(),
        "run": checkpoint.metadata.get("run_id"),
        "graph": checkpoint.schema.graph,
    })
}

fn whole(saved: &Saved, outward: &dyn Fn(&mut Value)) -> Value {
    let checkpoint = &saved.checkpoint;
    let (values, unreadable) = saved.json_values();
    let mut values = Value::Object(values);
    outward(&mut values);
    let tasks: Vec<Value> = saved.writes.iter().map(|of| task(of, checkpoint, outward)).collect();
    let mut all = brief(checkpoint);
    all["values"] = values;
    all["unreadable"] = unreadable.into();
    all["tasks"] = tasks.into();
    all["metadata"] = Value::Object((*checkpoint.metadata).clone());
    all
}

/// Formats a task of the superstep after the checkpoint: its writes, questions and error.
fn task(of: &TaskWrites, checkpoint: &Checkpoint, outward: &dyn Fn(&mut Value)) -> Value {
    let (agenda, schema) = (&checkpoint.agenda, &checkpoint.schema);
    let read = |wanted: i32| {
        let entry = of.writes.iter().find(|write| write.slot == wanted)?;
        codec::decode_json(&entry.value).ok()
    };
    let asked = read(slot::INTERRUPT).unwrap_or_default();
    let open = asked.as_array().into_iter().flatten().filter(|question| question["answered"] != json!(true));
    let question = |asked: &Value| {
        json!({
            "id": asked["id"], "value": asked["value"], "schema": asked["schema"], "kind": asked["kind"], "due": asked["due"],
        })
    };
    let mut writes: Map<String, Value> = Map::new();
    let is_shown = |channel: &str| !channel.starts_with(OWN) && !schema.hides(channel);
    for write in of.writes.iter().filter(|write| write.slot >= 0 && is_shown(&write.channel)) {
        let value = codec::decode_json(&write.value).unwrap_or_default();
        let mut written = json!({ &*write.channel: value });
        outward(&mut written);
        // `outward` has removed the channels that are secret now.
        let Some(value) = written.get_mut(&*write.channel).map(Value::take) else { continue };
        let list = writes.entry(write.channel.to_string()).or_insert_with(|| json!([]));
        if let Some(list) = list.as_array_mut() {
            list.push(value);
        }
    }
    json!({
        "id": of.task,
        "node": if of.task.is_nil() { Value::Null } else { agenda.node_of(&of.path).unwrap_or(&of.path).into() },
        "done": of.writes.iter().any(|write| &*write.channel == "__routing__"),
        "error": read(slot::ERROR).and_then(|error| error.get("message").cloned()),
        "questions": open.map(question).collect::<Vec<_>>(),
        "writes": writes,
    })
}
