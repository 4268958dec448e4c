//! Formats checkpoints as text and as JSON.

use std::collections::BTreeMap;

use hier_core::checkpoint::{Checkpoint, TaskWrites, codec, slot};
use serde_json::{Map, Value, json};

use super::text;

/// The prefix of the engine's own channels and entries.
const OWN: &str = "__";
/// The entry with the routes of a task. Only a task that is done has this entry.
const ROUTING: &str = "__routing__";

/// Joins names, each with the number of its occurrences: `work ×3, gather`.
pub(super) fn counted(names: &[&str]) -> String {
    let mut counts: Vec<(&str, usize)> = Vec::new();
    for name in names {
        match counts.iter_mut().find(|(known, _)| known == name) {
            Some((_, count)) => *count += 1,
            None => counts.push((name, 1)),
        }
    }
    let each = counts.into_iter().map(|(name, count)| match count {
        1 => text::safe(name),
        count => format!("{} ×{count}", text::safe(name)),
    });
    each.collect::<Vec<_>>().join(", ")
}

/// Formats a checkpoint without its values.
pub(super) fn checkpoint_json(checkpoint: &Checkpoint) -> Map<String, Value> {
    let fields = json!({
        "checkpoint": checkpoint.id,
        "parent": checkpoint.parent,
        "step": checkpoint.step,
        "source": checkpoint.source.name(),
        "created_at": text::time(checkpoint.created_at()),
        "graph": checkpoint.schema.graph,
        "state_version": checkpoint.schema.version,
        "next": checkpoint.agenda.nodes(),
        "changed": checkpoint.changed_channels(),
        "metadata": *checkpoint.metadata,
    });
    match fields {
        Value::Object(fields) => fields,
        _ => Map::new(),
    }
}

pub(super) struct TaskView {
    pub(super) id: String,
    /// The name of the node. `None` for the writes of a command that a caller sent.
    pub(super) node: Option<String>,
    pub(super) done: bool,
    pub(super) error: Option<String>,
    pub(super) questions: Vec<Value>,
    /// The written values, by channel.
    pub(super) writes: BTreeMap<String, Vec<Value>>,
}

impl TaskView {
    pub(super) fn new(record: &TaskWrites, checkpoint: &Checkpoint) -> Self {
        let (agenda, schema) = (&checkpoint.agenda, &checkpoint.schema);
        let entry = |slot: i32| record.writes.iter().find(|write| write.slot == slot);
        let read = |bytes: &[u8]| codec::decode_json(bytes).unwrap_or_else(|error| json!(format!("({error})")));
        let failed = entry(slot::ERROR).map(|write| read(&write.value));
        let asked = entry(slot::INTERRUPT).map(|write| read(&write.value));
        let open = |question: &Value| question["answered"] != json!(true);
        let mut task = Self {
            id: record.task.to_string(),
            node: (!record.task.is_nil()).then(|| agenda.node_of(&record.path).unwrap_or(&record.path).to_owned()),
            done: record.writes.iter().any(|write| &*write.channel == ROUTING),
            error: failed.map(|failed| failed["message"].as_str().unwrap_or("(no reason)").to_owned()),
            questions: asked
                .and_then(|asked| asked.as_array().cloned())
                .unwrap_or_default()
                .into_iter()
                .filter(open)
                .collect(),
            writes: BTreeMap::new(),
        };
        let is_shown = |channel: &str| !channel.starts_with(OWN) && !schema.hides(channel);
        for write in record.writes.iter().filter(|write| write.slot >= 0 && is_shown(&write.channel)) {
            task.writes.entry(write.channel.to_string()).or_default().push(read(&write.value));
        }
        task
    }

    pub(super) fn json(&self) -> Value {
        let questions: Vec<Value> =
            self.questions.iter().map(|asked| json!({ "id": asked["id"], "value": asked["value"] })).collect();
        json!({
            "task": self.id, "node": self.node, "done": self.done, "error": self.error,
            "questions": questions, "writes": self.writes,
        })
    }

    pub(super) fn results(&self) -> Vec<String> {
        let mut results = Vec::new();
        let wrote: Vec<&str> = self.writes.keys().map(String::as_str).collect();
        match (self.done, wrote.as_slice()) {
            (true, []) => results.push("done".to_owned()),
            (true, _) => results.push(format!("done, wrote {}", text::short(&wrote.join(", ")))),
            (false, []) => {}
            (false, _) => results.push(format!("wrote {}", text::short(&wrote.join(", ")))),
        }
        if let Some(error) = self.error.as_ref().filter(|_| !self.done) {
            results.push(format!("failed: {}", text::short(error)));
        }
        for asked in self.questions.iter().filter(|_| !self.done) {
            let id = asked["id"].as_str().unwrap_or_default();
            results.push(format!("asks {} (id {})", text::short(&asked["value"].to_string()), text::safe(id)));
        }
        results
    }
}
