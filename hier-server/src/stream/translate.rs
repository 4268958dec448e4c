//! Turns the events of a run's log into those that a client of the first protocol has asked for.

use std::time::SystemTime;

use hier_core::runs::{
    ClientMode, EventRow, LogEvent, LoggedCheckpoint, LoggedMessage, LoggedUpdate, Run, RunStatus, StreamMode,
    TaskEvent, TaskPhase,
};
use serde_json::{Map, Value, json};
use uuid::Uuid;

use super::assembler::{Change, MessageAssembler, written};
use super::chunk::{chunk, partial};
use super::runnables::{self, Runnables};

use crate::time::iso;
use crate::wire::places::Places;
use crate::wire::question;
use crate::wire::row::{output, questions};

/// An event as it goes over the wire.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Told {
    /// Its name.
    pub(crate) event: String,
    /// Its data.
    pub(crate) data: Value,
}

impl Told {
    fn new(event: impl Into<String>, data: Value) -> Self {
        Self { event: event.into(), data }
    }

    fn runnable(data: Value) -> Self {
        Self::new("events", data)
    }
}

/// The modes of the engine whose events the modes of a client are made of.
pub(crate) fn recorded(modes: &[ClientMode]) -> Vec<StreamMode> {
    let of = |mode: &ClientMode| -> &[StreamMode] {
        match mode {
            ClientMode::Values => &[StreamMode::Values],
            ClientMode::Updates => &[StreamMode::Updates],
            ClientMode::Messages | ClientMode::MessagesTuple => &[StreamMode::Messages, StreamMode::Updates],
            ClientMode::Custom => &[StreamMode::Custom],
            ClientMode::Tasks => &[StreamMode::Tasks],
            ClientMode::Checkpoints => &[StreamMode::Checkpoints],
            ClientMode::Debug => &[StreamMode::Debug, StreamMode::Checkpoints],
            ClientMode::Events => &[StreamMode::Debug, StreamMode::Messages, StreamMode::Values],
        }
    };
    let mut recorded: Vec<StreamMode> = modes.iter().flat_map(of).copied().collect();
    recorded.sort_unstable();
    recorded.dedup();
    recorded
}

/// Translates the events of one run, in their order.
#[derive(Debug)]
pub(crate) struct Translator {
    run: Run,
    places: Places,
    modes: Vec<ClientMode>,
    subgraphs: bool,
    /// The state of the root as it was told last.
    values: Value,
    messages: MessageAssembler,
    /// What was told piece by piece and is said to be complete once a state, or an update, has it: with their namespaces.
    spoken: Vec<(Vec<String>, Value)>,
    runnables: Runnables,
}

impl Translator {
    /// Translates for a client that asks for these modes.
    pub(crate) fn new(run: Run, places: Places, modes: Vec<ClientMode>, subgraphs: bool) -> Self {
        Self {
            run,
            places,
            modes,
            subgraphs,
            values: json!({}),
            messages: MessageAssembler::default(),
            spoken: Vec::new(),
            runnables: Runnables::default(),
        }
    }

    /// The first event of each run.
    pub(crate) fn opening(run: &Run, attempt: u32) -> Told {
        Told::new("metadata", json!({ "run_id": run.id, "attempt": attempt }))
    }

    fn has(&self, mode: ClientMode) -> bool {
        self.modes.contains(&mode)
    }

    /// What a client is told of an event.
    pub(crate) fn event(&mut self, row: &EventRow) -> Vec<Told> {
        let namespace = &*row.event.namespace;
        match &row.event.body {
            LogEvent::Message(message) => return self.message(message, namespace),
            // Models are heard wherever in the tree they are; anything else of a subgraph only by who asks for it.
            _ if !namespace.is_empty() && !self.subgraphs => return Vec::new(),
            _ => {}
        }
        match self.places.event(&row.event) {
            LogEvent::Start { attempt, .. } => {
                let mut told = vec![Self::opening(&self.run, attempt)];
                told.extend(self.root("on_chain_start", || json!({ "input": self.run.request.input })));
                told
            }
            LogEvent::Values(state) => self.state(state, namespace),
            LogEvent::Updates(update) => {
                let mut told = self.messages_of(&update, namespace);
                told.extend(self.update(update.to_json(), namespace));
                told
            }
            LogEvent::Interrupted(questions) => {
                self.update(json!({ "__interrupt__": question::logged(&questions) }), namespace)
            }
            LogEvent::Custom { value, .. } => self.plain(ClientMode::Custom, namespace, value),
            LogEvent::Task(task) => self.plain(ClientMode::Tasks, namespace, self.task_payload(&task)),
            LogEvent::Debug { timestamp, task } => {
                let mut told = self.node(&task, namespace);
                told.extend(self.debug(timestamp, &task, namespace));
                told
            }
            LogEvent::Checkpoint(checkpoint) => self.checkpoint(&checkpoint, namespace, row.at),
            LogEvent::End { .. } | LogEvent::Message(_) | LogEvent::Lagged { .. } | LogEvent::StateUpdate { .. } => {
                Vec::new()
            }
        }
    }

    fn plain(&self, mode: ClientMode, namespace: &[String], data: Value) -> Vec<Told> {
        if self.has(mode) { vec![Told::new(named(mode.name(), namespace), data)] } else { Vec::new() }
    }

    fn state(&mut self, data: Value, namespace: &[String]) -> Vec<Told> {
        if namespace.is_empty() {
            self.values.clone_from(&data);
        }
        let mut told = self.plain(ClientMode::Values, namespace, data);
        told.extend(self.completed());
        told
    }

    /// The messages that are complete now.
    fn completed(&mut self) -> Vec<Told> {
        let spoken = std::mem::take(&mut self.spoken);
        let complete = |(namespace, message): (Vec<String>, Value)| {
            Told::new(named("messages/complete", self.shown(&namespace)), json!([message]))
        };
        spoken.into_iter().map(complete).collect()
    }

    /// The messages of an update that were not told piece by piece.
    fn messages_of(&mut self, update: &LoggedUpdate, namespace: &[String]) -> Vec<Told> {
        let mut told = Vec::new();
        if !update.is_by_handler() && (self.has(ClientMode::Messages) || self.has(ClientMode::MessagesTuple)) {
            for (id, written) in written(&update.writes) {
                if self.messages.note(id) {
                    let metadata = self.spoken_metadata(&update.node, None, 0, namespace);
                    told.extend(self.whole(id, &Value::Object(written.clone()), &metadata, namespace));
                }
            }
        }
        told
    }

    fn update(&mut self, data: Value, namespace: &[String]) -> Vec<Told> {
        let mut told = self.plain(ClientMode::Updates, namespace, data);
        if !self.has(ClientMode::Values) {
            told.extend(self.completed());
        }
        told
    }

    /// A message that was not told piece by piece.
    fn whole(&self, id: &str, message: &Value, metadata: &Value, namespace: &[String]) -> Vec<Told> {
        let mut told = Vec::new();
        if self.has(ClientMode::Messages) {
            told.push(Told::new(
                named("messages/metadata", self.shown(namespace)),
                json!({ id: { "metadata": metadata } }),
            ));
            told.push(Told::new(named("messages/complete", self.shown(namespace)), json!([message])));
        }
        if self.has(ClientMode::MessagesTuple) {
            told.push(Told::new(named("messages", self.shown(namespace)), json!([message, metadata])));
        }
        told
    }

    /// The namespace of an event about messages as the client sees it. Clients that do not ask for subgraphs hear their models too.
    const fn shown<'a>(&self, namespace: &'a [String]) -> &'a [String] {
        if self.subgraphs { namespace } else { &[] }
    }

    fn message(&mut self, message: &LoggedMessage, namespace: &[String]) -> Vec<Told> {
        let metadata = self.spoken_metadata(&message.node, Some(message.task), message.step, namespace);
        let shown = self.shown(namespace);
        let Some(delta) = self.messages.take(message) else { return Vec::new() };
        let has = |mode| self.modes.contains(&mode);
        let mut told = Vec::new();
        // Sent first: a client that requests both modes takes pieces from `messages` until it has learned of a model by `events`.
        if has(ClientMode::Events) {
            let events = runnables::model(&self.run, message, &delta, namespace, metadata.clone());
            told.extend(events.into_iter().map(Told::runnable));
        }
        if has(ClientMode::Messages) {
            if delta.is_first {
                let about = json!({ &message.id: { "metadata": metadata } });
                told.push(Told::new(named("messages/metadata", shown), about));
            }
            let (event, message) = match &delta.change {
                Change::Done(message) if delta.is_first => ("messages/complete", message.clone()),
                Change::Done(message) => {
                    self.spoken.push((namespace.to_vec(), message.clone()));
                    ("messages/partial", message.clone())
                }
                Change::Grown(_) => ("messages/partial", partial(&delta.sent)),
            };
            told.push(Told::new(named(event, shown), json!([message])));
        }
        if has(ClientMode::MessagesTuple) {
            let chunk = chunk(&delta);
            if !adds_nothing(&chunk) {
                told.push(Told::new(named("messages", shown), json!([chunk, metadata])));
            }
        }
        told
    }

    /// What is said of each task and message of the run.
    pub(crate) fn metadata(&self) -> Map<String, Value> {
        let mut metadata = self.run.metadata.clone();
        metadata.insert("graph_id".into(), self.run.graph.clone().into());
        metadata.insert("assistant_id".into(), json!(self.run.assistant));
        metadata.insert("run_id".into(), self.run.id.to_string().into());
        metadata.insert("run_attempt".into(), self.run.attempts.max(1).into());
        metadata
    }

    fn spoken_metadata(&self, node: &str, task: Option<Uuid>, step: i64, namespace: &[String]) -> Value {
        let mut metadata = self.metadata();
        metadata.insert("thread_id".into(), self.run.thread.clone().into());
        let mut levels = namespace.to_vec();
        levels.push(task.map_or_else(|| node.to_owned(), |task| format!("{node}:{task}")));
        let checkpoint_ns = levels.join("|");
        metadata.insert("langgraph_step".into(), step.into());
        metadata.insert("langgraph_node".into(), node.into());
        metadata.insert("langgraph_triggers".into(), json!([format!("branch:to:{node}")]));
        metadata.insert("langgraph_path".into(), json!(["__pregel_pull", node]));
        metadata.insert("langgraph_checkpoint_ns".into(), checkpoint_ns.clone().into());
        metadata.insert("checkpoint_ns".into(), checkpoint_ns.into());
        Value::Object(metadata)
    }

    /// The payload of a task as clients read it.
    fn task_payload(&self, task: &TaskEvent) -> Value {
        let mut data = question::task(task);
        if let TaskPhase::Started { .. } = task.phase {
            data["metadata"] = Value::Object(self.metadata());
            data["interrupts"] = json!([]);
        }
        data
    }

    fn debug(&self, millis: u64, task: &TaskEvent, namespace: &[String]) -> Vec<Told> {
        let at = SystemTime::UNIX_EPOCH + std::time::Duration::from_millis(millis);
        let data = json!({
            "step": task.step, "timestamp": iso(at), "type": task.phase.name(), "payload": self.task_payload(task),
        });
        self.plain(ClientMode::Debug, namespace, data)
    }

    fn checkpoint(&self, checkpoint: &LoggedCheckpoint, namespace: &[String], at: SystemTime) -> Vec<Told> {
        let LoggedCheckpoint { id, parent, step, source, values, next } = checkpoint;
        let ns = namespace.join("|");
        let configured = |id: &Uuid| {
            json!({ "configurable": {
                "checkpoint_ns": ns, "run_id": self.run.id, "thread_id": self.run.thread, "graph_id": self.run.graph,
                "assistant_id": self.run.assistant, "checkpoint_id": id,
            } })
        };
        let flat = |id: &Uuid| json!({ "checkpoint_id": id, "thread_id": self.run.thread, "checkpoint_ns": ns });
        let mut payload = json!({
            "config": configured(id),
            "parent_config": parent.as_ref().map(configured),
            "values": values,
            "metadata": { "source": source, "step": step, "parents": {} },
            "next": next,
            "tasks": [],
        });
        let mut told = self.plain(ClientMode::Checkpoints, namespace, payload.clone());
        if self.has(ClientMode::Debug) {
            payload["checkpoint"] = flat(id);
            payload["parent_checkpoint"] = json!(parent.as_ref().map(flat));
            let debug = json!({ "step": step, "timestamp": iso(at), "type": "checkpoint", "payload": payload });
            told.extend(self.plain(ClientMode::Debug, namespace, debug));
        }
        told
    }

    /// An event about the root as LangChain tells of its runnables.
    fn root(&self, event: &str, data: impl FnOnce() -> Value) -> Option<Told> {
        self.has(ClientMode::Events)
            .then(|| Told::runnable(runnables::root(&self.run, event, &data(), Value::Object(self.metadata()))))
    }

    /// The same about a node, of what the mode `debug` tells of a task.
    fn node(&mut self, task: &TaskEvent, namespace: &[String]) -> Vec<Told> {
        if !self.has(ClientMode::Events) {
            return Vec::new();
        }
        let metadata = self.spoken_metadata(&task.node, Some(task.id), task.step, namespace);
        let told = self.runnables.node(&self.run, task, namespace, metadata);
        told.into_iter().map(Told::runnable).collect()
    }

    /// What a client is told at the end, with the run as it ended: a state with what is asked, or an error.
    pub(crate) fn end(&mut self, ended: &Run) -> Vec<Told> {
        self.run = ended.clone();
        if let Some(error) = &ended.error {
            return vec![Told::new("error", json!(error))];
        }
        if ended.status != RunStatus::Success {
            return Vec::new();
        }
        let mut told = Vec::new();
        let asked: Vec<Value> = questions(ended).map(question::asked).collect();
        if !asked.is_empty() {
            let mut values = self.values.clone();
            if let Some(values) = values.as_object_mut() {
                values.insert("__interrupt__".into(), asked.into());
            }
            told.extend(self.plain(ClientMode::Values, &[], values));
        }
        told.extend(self.root("on_chain_end", || json!({ "output": output(&self.places, ended) })));
        told
    }
}

/// Whether a chunk only says that its message has ended: what ends a message without anything new is not told.
fn adds_nothing(chunk: &Value) -> bool {
    let is_empty = |name: &str| match chunk.get(name) {
        None | Some(Value::Null) => true,
        Some(Value::String(text)) => text.is_empty(),
        Some(Value::Array(items)) => items.is_empty(),
        Some(Value::Object(fields)) => fields.is_empty(),
        Some(_) => false,
    };
    ["content", "additional_kwargs", "response_metadata", "tool_calls", "tool_call_chunks", "usage_metadata"]
        .into_iter()
        .all(is_empty)
}

/// The name of an event of a subgraph.
fn named(event: &str, namespace: &[String]) -> String {
    if namespace.is_empty() { event.to_owned() } else { format!("{event}|{}", namespace.join("|")) }
}
