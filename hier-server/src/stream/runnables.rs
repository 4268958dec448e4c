//! The stream mode `events`, which reports a run, its nodes and its models as runnables of LangChain.

use std::collections::HashMap;

use hier_core::runs::{LoggedMessage, Run, TaskEvent, TaskPhase};
use serde_json::{Value, json};
use uuid::Uuid;

use super::assembler::{MessageChange, MessageDelta};
use super::chunk::chunk;

/// The running tasks by id. The end event of a task repeats its triggers and its input.
#[derive(Debug, Default)]
pub(super) struct Runnables(HashMap<Uuid, StartedTask>);

#[derive(Debug)]
struct StartedTask {
    triggers: Vec<String>,
    input: Value,
}

/// The run, node or model that an event reports.
struct Runnable<'a> {
    name: &'a str,
    id: &'a str,
    tags: Vec<String>,
    metadata: Value,
    /// The ids of the runnables around this one, outermost first.
    parents: Vec<String>,
}

impl Runnable<'_> {
    fn event(&self, event: &str, data: &Value) -> Value {
        json!({
            "event": event, "data": data, "name": self.name, "tags": self.tags, "run_id": self.id,
            "metadata": self.metadata, "parent_ids": self.parents,
        })
    }
}

/// Returns the ids of the run and of the tasks around a namespace.
fn parents(run: &Run, namespace: &[String]) -> Vec<String> {
    let tasks = namespace.iter().map(|level| level.rsplit_once(':').map_or(level.as_str(), |(_, task)| task));
    std::iter::once(run.id.to_string()).chain(tasks.map(str::to_owned)).collect()
}

/// Creates an event that reports a run.
pub(super) fn root(run: &Run, event: &str, data: &Value, mut metadata: Value) -> Value {
    metadata["thread_id"] = run.thread.as_str().into();
    let id = run.id.to_string();
    Runnable { name: &run.graph, id: &id, tags: Vec::new(), metadata, parents: Vec::new() }.event(event, data)
}

/// Creates the events that report a model when it sends a piece of a message.
pub(super) fn model(
    run: &Run,
    message: &LoggedMessage,
    delta: &MessageDelta<'_>,
    namespace: &[String],
    metadata: Value,
) -> Vec<Value> {
    let mut parents = parents(run, namespace);
    parents.push(message.task.to_string());
    let model =
        Runnable { name: &message.node, id: &message.id, tags: vec!["seq:step:1".to_owned()], metadata, parents };
    let start = delta.is_first.then(|| model.event("on_chat_model_start", &json!({})));
    let (event, data) = match &delta.change {
        MessageChange::Done(message) => ("on_chat_model_end", json!({ "output": message })),
        MessageChange::Grown(_) => ("on_chat_model_stream", json!({ "chunk": chunk(delta) })),
    };
    start.into_iter().chain([model.event(event, &data)]).collect()
}

impl Runnables {
    /// Creates the events that report the node of a task.
    pub(super) fn node(
        &mut self,
        run: &Run,
        task: &TaskEvent,
        namespace: &[String],
        mut metadata: Value,
    ) -> Vec<Value> {
        let started = match &task.phase {
            TaskPhase::Started { triggers, input } => {
                Some(StartedTask { triggers: triggers.clone(), input: input.clone() })
            }
            // A handler may still end in place of the failed node.
            TaskPhase::Finished { error: Some(_), .. } => None,
            TaskPhase::Finished { .. } => self.0.remove(&task.id),
        };
        if let Some(started) = &started {
            metadata["langgraph_triggers"] = json!(started.triggers);
        }
        match metadata.as_object_mut() {
            Some(fields) if namespace.is_empty() => drop(fields.remove("checkpoint_ns")),
            _ => metadata["checkpoint_ns"] = namespace.join("|").into(),
        }
        let (id, tags) = (task.id.to_string(), vec![format!("graph:step:{}", task.step)]);
        let node = Runnable { name: &task.node, id: &id, tags, metadata, parents: parents(run, namespace) };
        match &task.phase {
            TaskPhase::Started { input, .. } => {
                self.0.extend(started.map(|started| (task.id, started)));
                vec![node.event("on_chain_start", &json!({ "input": input }))]
            }
            TaskPhase::Finished { result, error: None, interrupts } if interrupts.is_empty() => {
                let mut end = json!({ "output": result });
                if let Some(started) = started {
                    end["input"] = started.input;
                }
                vec![node.event("on_chain_stream", &json!({ "chunk": result })), node.event("on_chain_end", &end)]
            }
            // A task that failed or asks a question has no end event.
            TaskPhase::Finished { .. } => Vec::new(),
        }
    }
}
