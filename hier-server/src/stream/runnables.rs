//! The mode `events`: a run, its nodes and its models, as LangChain tells of its runnables.

use std::collections::HashMap;

use serde_json::{Value, json};

use super::speech::{Piece, What};
use super::translate::{Told, Translator};
use crate::wire::message;
use crate::wire::mode::Mode;

/// The tasks that have begun, by their ids, with what was told of that: their ends say the input again.
#[derive(Debug, Default)]
pub(super) struct Begun(HashMap<String, Value>);

impl Translator {
    /// The run itself, and the tasks of the graphs around a namespace: what is within runs in them.
    fn parents(&self, namespace: &[String]) -> Vec<String> {
        let tasks = namespace.iter().map(|level| level.rsplit_once(':').map_or(level.as_str(), |(_, task)| task));
        std::iter::once(self.run().id.to_string()).chain(tasks.map(str::to_owned)).collect()
    }

    /// An event about the root.
    pub(super) fn root(&self, event: &str, data: impl FnOnce() -> Value) -> Option<Told> {
        self.has(Mode::Events).then(|| {
            let mut data = data();
            message::outward(&mut data);
            let mut metadata = Value::Object(self.metadata());
            metadata["thread_id"] = self.run().thread.as_str().into();
            let id = self.run().id.to_string();
            let run = Runnable { name: &self.run().graph, id: &id, tags: Vec::new(), metadata, parents: Vec::new() };
            run.told(event, &data)
        })
    }

    /// The events about a node, of what the mode `debug` tells of a task. One that failed, or asks, has no end.
    pub(super) fn node(&mut self, debug: &Value, namespace: &[String]) -> Vec<Told> {
        let payload = &debug["payload"];
        let text = |name: &str| payload.get(name).and_then(Value::as_str).unwrap_or_default();
        let (name, id, step) = (text("name"), text("id"), debug["step"].as_i64().unwrap_or(0));
        if !self.has(Mode::Events) {
            return Vec::new();
        }
        let begins = payload.get("input").is_some();
        let begun = if begins { payload.clone() } else { self.begun.0.remove(id).unwrap_or_default() };
        let mut metadata = self.spoken_metadata(name, Some(id), step, namespace);
        if let Some(triggers) = begun.get("triggers") {
            metadata["langgraph_triggers"] = triggers.clone();
        }
        match metadata.as_object_mut() {
            Some(fields) if namespace.is_empty() => drop(fields.remove("checkpoint_ns")),
            _ => metadata["checkpoint_ns"] = namespace.join("|").into(),
        }
        let parents = self.parents(namespace);
        let node = Runnable { name, id, tags: vec![format!("graph:step:{step}")], metadata, parents };
        if begins {
            let told = node.told("on_chain_start", &json!({ "input": payload["input"] }));
            self.begun.0.insert(id.to_owned(), begun);
            return vec![told];
        }
        if !payload["error"].is_null() || payload["interrupts"].as_array().is_some_and(|asked| !asked.is_empty()) {
            return Vec::new();
        }
        let mut end = json!({ "output": payload["result"] });
        if let Some(input) = begun.get("input") {
            end["input"] = input.clone();
        }
        vec![node.told("on_chain_stream", &json!({ "chunk": payload["result"] })), node.told("on_chain_end", &end)]
    }

    /// The events about a model that says a piece of a message in a task of a node.
    pub(super) fn model(
        &self,
        piece: &Piece,
        chunk: &Value,
        (name, task): (&str, Option<&str>),
        namespace: &[String],
        metadata: &Value,
    ) -> Vec<Told> {
        let mut parents = self.parents(namespace);
        parents.extend(task.map(str::to_owned));
        let tags = vec!["seq:step:1".to_owned()];
        let model = Runnable { name, id: &piece.id, tags, metadata: metadata.clone(), parents };
        let start = piece.is_first.then(|| model.told("on_chat_model_start", &json!({})));
        let (event, data) = match &piece.what {
            What::Done { message, .. } => ("on_chat_model_end", json!({ "output": message })),
            _ => ("on_chat_model_stream", json!({ "chunk": chunk })),
        };
        start.into_iter().chain([model.told(event, &data)]).collect()
    }
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
    fn told(&self, event: &str, data: &Value) -> Told {
        let about = json!({
            "event": event, "data": data, "name": self.name, "tags": self.tags, "run_id": self.id,
            "metadata": self.metadata, "parent_ids": self.parents,
        });
        Told::new("events", about)
    }
}
