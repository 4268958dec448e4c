//! States of threads as clients read them.

use hier_core::checkpoint::Source;
use hier_core::graph::{DynSnapshot, DynTask};
use hier_core::{Config, Question};
use serde_json::{Map, Value, json};
use uuid::Uuid;

use super::message;
use crate::time::iso;

/// A thread that nothing was ever stored of.
pub(crate) fn empty() -> Value {
    json!({
        "values": {}, "next": [], "tasks": [], "metadata": null, "created_at": null, "checkpoint": null,
        "parent_checkpoint": null, "interrupts": [], "checkpoint_id": null, "parent_checkpoint_id": null,
    })
}

/// The address of a checkpoint.
pub(crate) fn address(thread: &str, namespace: &str, checkpoint: Option<Uuid>) -> Value {
    match checkpoint {
        None => Value::Null,
        Some(id) => json!({ "checkpoint_id": id, "thread_id": thread, "checkpoint_ns": namespace }),
    }
}

/// A state. `metadata` is what the server adds to that of the checkpoint.
pub(crate) fn state(thread: &str, snapshot: &DynSnapshot, metadata: &Map<String, Value>) -> Value {
    if snapshot.checkpoint.is_none() {
        return empty();
    }
    let namespace = snapshot.config.checkpoint_namespace();
    let mut values = snapshot.values.clone();
    message::outward(&mut values);
    let mut told = metadata.clone();
    told.extend(snapshot.metadata.clone());
    told.insert("source".into(), json!(snapshot.source.map(source)));
    told.insert("step".into(), snapshot.step.into());
    told.insert("parents".into(), json!(snapshot.parents));
    told.insert("thread_id".into(), thread.into());
    json!({
        "values": values,
        "next": snapshot.next,
        "tasks": snapshot.tasks.iter().map(|of| task(thread, of)).collect::<Vec<_>>(),
        "metadata": told,
        "created_at": snapshot.created_at.map(iso),
        "checkpoint": address(thread, namespace, snapshot.checkpoint),
        "parent_checkpoint": address(thread, namespace, snapshot.parent),
        "interrupts": questions(&snapshot.questions),
        "checkpoint_id": snapshot.checkpoint,
        "parent_checkpoint_id": snapshot.parent,
    })
}

fn source(source: Source) -> Value {
    json!(source)
}

fn task(thread: &str, task: &DynTask) -> Value {
    let path = match task.send {
        Some(number) => json!(["__pregel_push", number, false]),
        None => json!(["__pregel_pull", task.node]),
    };
    let mut result = task.result.clone().unwrap_or_default();
    message::outward(&mut result);
    let below = |config: &Config| json!({ "thread_id": thread, "checkpoint_ns": config.checkpoint_namespace() });
    json!({
        "id": task.id,
        "name": task.node,
        "path": path,
        "error": task.error,
        "interrupts": questions(&task.questions),
        "checkpoint": task.state.as_ref().map(below),
        "state": null,
        "result": result,
    })
}

fn questions(questions: &[Question]) -> Vec<Value> {
    questions.iter().map(|question| json!({ "id": question.id, "value": question.value })).collect()
}
