//! States of threads as clients read them.

use hier_core::Question as Asked;
use hier_core::graph::{DynSnapshot, DynTask};
use serde_json::{Map, Value, json};
use uuid::Uuid;

use super::object::{Address, Question, State, Task};
use super::places::Places;
use crate::time::iso;

/// A thread that nothing was ever stored of.
pub(crate) fn empty() -> State {
    State { values: json!({}), ..State::default() }
}

/// The address of a checkpoint.
fn address(thread: &str, namespace: &str, checkpoint: Option<Uuid>) -> Option<Address> {
    let (thread_id, checkpoint_ns) = (thread.to_owned(), namespace.to_owned());
    checkpoint.map(|id| Address { checkpoint_id: Some(id), thread_id, checkpoint_ns })
}

/// A state. `metadata` is what the server adds to that of the checkpoint.
pub(crate) fn state(places: &Places, thread: &str, snapshot: &DynSnapshot, metadata: &Map<String, Value>) -> State {
    if snapshot.checkpoint.is_none() {
        return empty();
    }
    let namespace = snapshot.config.checkpoint_namespace();
    let levels: Vec<&str> = namespace.split('|').filter(|level| !level.is_empty()).collect();
    let mut values = snapshot.values.clone();
    places.state(&levels, &mut values);
    let mut told = metadata.clone();
    told.extend(snapshot.metadata.clone());
    told.insert("source".into(), json!(snapshot.source));
    told.insert("step".into(), snapshot.step.into());
    told.insert("parents".into(), json!(snapshot.parents));
    told.insert("thread_id".into(), thread.into());
    if let Some(reason) = &snapshot.unreadable {
        told.insert("error".into(), reason.clone().into());
    }
    State {
        values,
        next: snapshot.next.clone(),
        tasks: snapshot.tasks.iter().map(|of| task(places, &levels, thread, of)).collect(),
        metadata: Some(told),
        created_at: snapshot.created_at.map(iso),
        checkpoint: address(thread, namespace, snapshot.checkpoint),
        parent_checkpoint: address(thread, namespace, snapshot.parent),
        interrupts: questions(&snapshot.questions),
        checkpoint_id: snapshot.checkpoint,
        parent_checkpoint_id: snapshot.parent,
    }
}

fn task(places: &Places, levels: &[&str], thread: &str, task: &DynTask) -> Task {
    let path = match task.send {
        Some(number) => json!(["__pregel_push", number, false]),
        None => json!(["__pregel_pull", task.node]),
    };
    let mut result = task.result.clone().unwrap_or_default();
    places.state(levels, &mut result);
    let below = task.state.as_ref().map(|config| Address {
        checkpoint_id: None,
        thread_id: thread.to_owned(),
        checkpoint_ns: config.checkpoint_namespace().to_owned(),
    });
    Task {
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

fn questions(questions: &[Asked]) -> Vec<Question> {
    questions.iter().map(|asked| Question { id: json!(asked.id), value: asked.value.clone() }).collect()
}
