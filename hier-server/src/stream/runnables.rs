//! The mode `events`: a run, its nodes and its models, as LangChain tells of its runnables.

use std::collections::HashMap;

use hier_core::runs::Run;
use serde_json::{Value, json};

use super::speech::{Piece, What};

/// The tasks that have begun, by their ids, with what was told of that: their ends say the input again.
#[derive(Debug, Default)]
pub(super) struct Runnables(HashMap<String, Value>);

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

/// The events about a model that says a piece of a message in a task of a node.
pub(super) fn model(
    run: &Run,
    piece: &Piece,
    chunk: &Value,
    (name, task): (&str, Option<&str>),
    namespace: &[String],
    metadata: Value,
) -> Vec<Value> {
    let mut parents = parents(run, namespace);
    parents.extend(task.map(str::to_owned));
    let model = Runnable { name, id: &piece.id, tags: vec!["seq:step:1".to_owned()], metadata, parents };
    let start = piece.is_first.then(|| model.told("on_chat_model_start", &json!({})));
    let (event, data) = match &piece.what {
        What::Done { message, .. } => ("on_chat_model_end", json!({ "output": message })),
        _ => ("on_chat_model_stream", json!({ "chunk": chunk })),
    };
    start.into_iter().chain([model.told(event, &data)]).collect()
}

/// What the mode `debug` tells of a task.
pub(super) struct TaskEvent<'a> {
    pub(super) name: &'a str,
    pub(super) id: &'a str,
    pub(super) step: i64,
    payload: &'a Value,
}

impl<'a> TaskEvent<'a> {
    pub(super) fn of(debug: &'a Value) -> Self {
        let payload = &debug["payload"];
        let text = |name: &str| payload.get(name).and_then(Value::as_str).unwrap_or_default();
        Self { name: text("name"), id: text("id"), step: debug["step"].as_i64().unwrap_or(0), payload }
    }

    /// Whether it has come to its end: one that failed, or asks, has not.
    fn is_done(&self) -> bool {
        let asks = self.payload["interrupts"].as_array().is_some_and(|asked| !asked.is_empty());
        self.payload["error"].is_null() && !asks
    }
}

impl Runnables {
    /// The events about the node of a task, with what is said of each message in it.
    pub(super) fn node(
        &mut self,
        run: &Run,
        task: &TaskEvent<'_>,
        namespace: &[String],
        mut metadata: Value,
    ) -> Vec<Value> {
        let begins = task.payload.get("input").is_some();
        let begun = if begins { task.payload.clone() } else { self.0.remove(task.id).unwrap_or_default() };
        if let Some(triggers) = begun.get("triggers") {
            metadata["langgraph_triggers"] = triggers.clone();
        }
        match metadata.as_object_mut() {
            Some(fields) if namespace.is_empty() => drop(fields.remove("checkpoint_ns")),
            _ => metadata["checkpoint_ns"] = namespace.join("|").into(),
        }
        let tags = vec![format!("graph:step:{}", task.step)];
        let node = Runnable { name: task.name, id: task.id, tags, metadata, parents: parents(run, namespace) };
        if begins {
            let told = node.told("on_chain_start", &json!({ "input": task.payload["input"] }));
            self.0.insert(task.id.to_owned(), begun);
            return vec![told];
        }
        if !task.is_done() {
            return Vec::new();
        }
        let result = &task.payload["result"];
        let mut end = json!({ "output": result });
        if let Some(input) = begun.get("input") {
            end["input"] = input.clone();
        }
        vec![node.told("on_chain_stream", &json!({ "chunk": result })), node.told("on_chain_end", &end)]
    }
}
