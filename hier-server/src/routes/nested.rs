//! The states of subgraphs, read from what is stored of them: their types are known only to the graphs around them.

use std::sync::Arc;

use hier_core::checkpoint::{Agenda, Checkpointer, ListQuery, Saved, TaskWrites, chain_json, codec, slot};
use hier_core::runs::ThreadRow;
use serde_json::{Map, Value, json};
use uuid::Uuid;

use crate::error::ApiResult;
use crate::fault;
use crate::time::iso;
use crate::wire::{message, state};

/// The state of the subgraph whose checkpoints are in this namespace; that of a new thread if there are none.
pub(crate) async fn read(
    saver: &Arc<dyn Checkpointer>,
    thread: &ThreadRow,
    namespace: &str,
    checkpoint: Option<Uuid>,
    metadata: &Map<String, Value>,
) -> ApiResult<Value> {
    let found = saver.get(&thread.id, namespace, checkpoint).await.map_err(|error| fault::saver(&error))?;
    Ok(found.map_or_else(state::empty, |saved| shown(&thread.id, namespace, &saved, metadata)))
}

/// The same of all its checkpoints, newest first.
pub(crate) async fn history(
    saver: &Arc<dyn Checkpointer>,
    thread: &ThreadRow,
    namespace: &str,
    query: ListQuery,
    metadata: &Map<String, Value>,
) -> ApiResult<Vec<Value>> {
    let query = ListQuery { thread: Some(thread.id.clone()), namespace: Some(namespace.to_owned()), ..query };
    let mut told = Vec::new();
    for listed in saver.list(query).await.map_err(|error| fault::saver(&error))? {
        told.push(read(saver, thread, namespace, Some(listed.checkpoint.id), metadata).await?);
    }
    Ok(told)
}

fn shown(thread: &str, namespace: &str, saved: &Saved, metadata: &Map<String, Value>) -> Value {
    let checkpoint = &saved.checkpoint;
    let mut values = Map::new();
    for (place, chain) in &saved.values {
        let name = checkpoint.channels.get(*place).filter(|name| !name.starts_with("__"));
        // A value that has no JSON is left out: nobody can be told of it.
        if let (Some(name), Ok(value)) = (name, chain_json(chain)) {
            values.insert(name.to_string(), value);
        }
    }
    let mut values = Value::Object(values);
    message::outward(&mut values);
    let agenda = &checkpoint.agenda;
    let tasks: Vec<Value> = saved.writes.iter().filter(|of| !of.task.is_nil()).map(|of| task(of, agenda)).collect();
    let asked = |task: &Value| task["interrupts"].as_array().cloned().unwrap_or_default();
    let interrupts: Vec<Value> = tasks.iter().flat_map(asked).collect();
    let mut told = metadata.clone();
    told.extend((*checkpoint.metadata).clone());
    told.insert("source".into(), checkpoint.source.name().into());
    told.insert("step".into(), checkpoint.step.into());
    told.insert("parents".into(), json!(checkpoint.parents));
    told.insert("thread_id".into(), thread.into());
    json!({
        "values": values,
        "next": next(agenda),
        "tasks": tasks,
        "metadata": told,
        "created_at": iso(checkpoint.created_at()),
        "checkpoint": state::address(thread, namespace, Some(checkpoint.id)),
        "parent_checkpoint": state::address(thread, namespace, checkpoint.parent),
        "interrupts": interrupts,
        "checkpoint_id": checkpoint.id,
        "parent_checkpoint_id": checkpoint.parent,
    })
}

/// The nodes that run next, one entry a task.
pub(crate) fn next(agenda: &Agenda) -> Vec<&str> {
    let start = agenda.start.then_some("__start__");
    let sends = agenda.sends.iter().map(|send| &*send.node);
    start.into_iter().chain(sends).chain(agenda.ready.iter().map(|node| &**node)).collect()
}

/// What came of a task of the open step.
fn task(of: &TaskWrites, agenda: &Agenda) -> Value {
    let read = |wanted: i32| {
        let entry = of.writes.iter().find(|write| write.slot == wanted)?;
        codec::decode_json(&entry.value).ok()
    };
    let asked = read(slot::INTERRUPT).unwrap_or_default();
    let open = asked.as_array().into_iter().flatten().filter(|question| question["answered"] != json!(true));
    let (node, path) = place(&of.path, agenda);
    json!({
        "id": of.task,
        "name": node,
        "path": path,
        "error": read(slot::ERROR).and_then(|error| error.get("message").cloned()),
        "interrupts": open.map(|asked| json!({ "id": asked["id"], "value": asked["value"] })).collect::<Vec<_>>(),
        "checkpoint": null,
        "state": null,
        "result": null,
    })
}

/// The node of a task, and its place as clients read it: `~__pregel_pull, node`, or `~__pregel_push, number, …`.
pub(crate) fn place(path: &str, agenda: &Agenda) -> (String, Value) {
    let mut parts = path.splitn(3, ", ");
    match (parts.next(), parts.next()) {
        (Some("~__pregel_pull"), Some(node)) => (node.to_owned(), json!(["__pregel_pull", node])),
        (Some("~__pregel_push"), Some(number)) => {
            let number: usize = number.parse().unwrap_or_default();
            let node = agenda.sends.get(number).map(|send| send.node.to_string()).unwrap_or_default();
            (node, json!(["__pregel_push", number, false]))
        }
        _ => (path.to_owned(), json!([path])),
    }
}
