//! Converts snapshots of graphs into the states that responses contain.

use hier_core::Question;
use hier_core::graph::{DynSnapshot, DynTask};
use serde_json::{Map, Value, json};
use uuid::Uuid;

use super::message_paths::MessagePaths;
use super::object::{CheckpointAddress, QuestionObject, StateObject, TaskObject};
use crate::time::iso;

/// Returns the state of a thread without checkpoints.
pub(crate) fn empty() -> StateObject {
    StateObject { values: json!({}), ..StateObject::default() }
}

fn address(thread: &str, namespace: &str, checkpoint: Option<Uuid>) -> Option<CheckpointAddress> {
    let (thread_id, checkpoint_ns) = (thread.to_owned(), namespace.to_owned());
    checkpoint.map(|id| CheckpointAddress { checkpoint_id: Some(id), thread_id, checkpoint_ns })
}

/// Converts a snapshot. `metadata` is added to the metadata of the checkpoint.
pub(crate) fn state(
    message_paths: &MessagePaths,
    thread: &str,
    snapshot: &DynSnapshot,
    metadata: &Map<String, Value>,
) -> StateObject {
    if snapshot.checkpoint.is_none() {
        return empty();
    }
    let namespace = snapshot.config.checkpoint_namespace();
    let levels: Vec<&str> = namespace.split('|').filter(|level| !level.is_empty()).collect();
    let mut values = snapshot.values.clone();
    message_paths.state(&levels, &mut values);
    let mut metadata = metadata.clone();
    metadata.extend(snapshot.metadata.clone());
    metadata.insert("source".into(), json!(snapshot.source));
    metadata.insert("step".into(), snapshot.step.into());
    metadata.insert("parents".into(), json!(snapshot.parents));
    metadata.insert("thread_id".into(), thread.into());
    if let Some(reason) = &snapshot.unreadable {
        metadata.insert("error".into(), reason.clone().into());
    }
    StateObject {
        values,
        next: snapshot.next.clone(),
        tasks: snapshot.tasks.iter().map(|of| task(message_paths, &levels, thread, of)).collect(),
        metadata: Some(metadata),
        created_at: snapshot.created_at.map(iso),
        checkpoint: address(thread, namespace, snapshot.checkpoint),
        parent_checkpoint: address(thread, namespace, snapshot.parent),
        interrupts: questions(&snapshot.questions),
        checkpoint_id: snapshot.checkpoint,
        parent_checkpoint_id: snapshot.parent,
    }
}

fn task(message_paths: &MessagePaths, levels: &[&str], thread: &str, task: &DynTask) -> TaskObject {
    let path = match task.send {
        Some(number) => json!(["__pregel_push", number, false]),
        None => json!(["__pregel_pull", task.node]),
    };
    let mut result = task.result.clone().unwrap_or_default();
    message_paths.state(levels, &mut result);
    let below = task.state.as_ref().map(|config| CheckpointAddress {
        checkpoint_id: None,
        thread_id: thread.to_owned(),
        checkpoint_ns: config.checkpoint_namespace().to_owned(),
    });
    TaskObject {
        id: task.id,
        name: task.node.clone(),
        path,
        error: task.error.clone(),
        interrupts: questions(&task.questions),
        checkpoint: below,
        state: None,
        result,
    }
}

fn questions(questions: &[Question]) -> Vec<QuestionObject> {
    questions.iter().map(|asked| QuestionObject { id: json!(asked.id), value: asked.value.clone() }).collect()
}
