//! The mode `events`: a run, its nodes and its models, as LangChain tells of its runnables.

use std::collections::HashMap;

use hier_core::runs::{LoggedMessage, Run, TaskEvent, TaskPhase};
use serde_json::{Value, json};
use uuid::Uuid;

use super::assembler::{Change, MessageDelta};
use super::chunk::chunk;

/// The tasks that have begun, by their ids: their ends say the triggers and the input again.
#[derive(Debug, Default)]
pub(super) struct Runnables(HashMap<Uuid, Begun>);

#[derive(Debug)]
struct Begun {
    triggers: Vec<String>,
    input: Value,
}

/// Who an event is about.
struct Runnable<'a> {
    name: &'a str,
    id: &'a str,
    tags: Vec<String>,
    metadata: Value,
    /// The ids of what it runs in, the outermost first.
    parents: Vec<String>,
}

impl Runnable<'_> {
    fn told(&self, event: &str, data: &Value) -> Value {
        json!({
            "event": event, "data": data, "name": self.name, "tags": self.tags, "run_id": self.id,
            "metadata": self.metadata, "parent_ids": self.parents,
        })
    }
}

/// The run itself, and the tasks of the graphs around a namespace: what is within runs in them.
fn parents(run: &Run, namespace: &[String]) -> Vec<String> {
    let tasks = namespace.iter().map(|level| level.rsplit_once(':').map_or(level.as_str(), |(_, task)| task));
    std::iter::once(run.id.to_string()).chain(tasks.map(str::to_owned)).collect()
}

/// An event about a run.
pub(super) fn root(run: &Run, event: &str, data: &Value, mut metadata: Value) -> Value {
    metadata["thread_id"] = run.thread.as_str().into();
    let id = run.id.to_string();
    Runnable { name: &run.graph, id: &id, tags: Vec::new(), metadata, parents: Vec::new() }.told(event, data)
}

/// The events about a model that says a piece of this message.
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
    let start = delta.is_first.then(|| model.told("on_chat_model_start", &json!({})));
    let (event, data) = match &delta.change {
        Change::Done(message) => ("on_chat_model_end", json!({ "output": message })),
        Change::Grown(_) => ("on_chat_model_stream", json!({ "chunk": chunk(delta) })),
    };
    start.into_iter().chain([model.told(event, &data)]).collect()
}

impl Runnables {
    /// The events about the node of a task, with what is said of each message in it.
    pub(super) fn node(
        &mut self,
        run: &Run,
        task: &TaskEvent,
        namespace: &[String],
        mut metadata: Value,
    ) -> Vec<Value> {
        let begun = match &task.phase {
            TaskPhase::Started { triggers, input } => Some(Begun { triggers: triggers.clone(), input: input.clone() }),
            TaskPhase::Finished { .. } => self.0.remove(&task.id),
        };
        if let Some(begun) = &begun {
            metadata["langgraph_triggers"] = json!(begun.triggers);
        }
        match metadata.as_object_mut() {
            Some(fields) if namespace.is_empty() => drop(fields.remove("checkpoint_ns")),
            _ => metadata["checkpoint_ns"] = namespace.join("|").into(),
        }
        let (id, tags) = (task.id.to_string(), vec![format!("graph:step:{}", task.step)]);
        let node = Runnable { name: &task.node, id: &id, tags, metadata, parents: parents(run, namespace) };
        match &task.phase {
            TaskPhase::Started { input, .. } => {
                self.0.extend(begun.map(|begun| (task.id, begun)));
                vec![node.told("on_chain_start", &json!({ "input": input }))]
            }
            TaskPhase::Finished { result, error: None, interrupts } if interrupts.is_empty() => {
                let mut end = json!({ "output": result });
                if let Some(begun) = begun {
                    end["input"] = begun.input;
                }
                vec![node.told("on_chain_stream", &json!({ "chunk": result })), node.told("on_chain_end", &end)]
            }
            // A task that failed, or asks, has not come to its end.
            TaskPhase::Finished { .. } => Vec::new(),
        }
    }
}
