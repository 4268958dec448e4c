//! Translates the log of a run into the events of the runs API.

use std::time::SystemTime;

use hier_core::runs::{
    ClientMode, EventRow, LogEvent, LoggedCheckpoint, LoggedMessage, LoggedUpdate, Run, RunStatus, StreamMode,
    TaskEvent, TaskPhase,
};
use serde_json::{Map, Value, json};
use uuid::Uuid;

use super::assembler::{MessageAssembler, MessageChange, written};
use super::chunk::{chunk, partial};
use super::runnables::{self, Runnables};

use crate::time::iso;
use crate::wire::message_paths::MessagePaths;
use crate::wire::question;
use crate::wire::row::{output, questions};

/// A server-sent event before it is formatted as a frame.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct SseEvent {
    pub(crate) event: String,
    pub(crate) data: Value,
}

impl SseEvent {
    pub(crate) fn new(event: impl Into<String>, data: Value) -> Self {
        Self { event: event.into(), data }
    }

    fn runnable(data: Value) -> Self {
        Self::new("events", data)
    }
}

/// The events that one log event becomes, with their numbers, which rise. An event that the client does not request
/// counts, too. So an event has the same number in all modes, and a client that reconnects with other modes skips none.
#[derive(Debug, Default)]
pub(crate) struct NumberedEvents {
    count: usize,
    events: Vec<(usize, SseEvent)>,
}

impl NumberedEvents {
    /// Appends events that take this many numbers. There are fewer events if the client does not request all of them.
    fn extend(&mut self, numbers: usize, events: impl IntoIterator<Item = SseEvent>) {
        let first = self.count + 1;
        self.events.extend(events.into_iter().enumerate().map(|(index, event)| (first + index, event)));
        self.count += numbers;
    }
}

impl IntoIterator for NumberedEvents {
    type Item = (usize, SseEvent);
    type IntoIter = std::vec::IntoIter<Self::Item>;

    fn into_iter(self) -> Self::IntoIter {
        self.events.into_iter()
    }
}

/// Returns the modes of the engine that provide the events of these client modes.
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

/// Translates the events of one run, in order.
#[derive(Debug)]
pub(crate) struct StreamTranslator {
    run: Run,
    message_paths: MessagePaths,
    modes: Vec<ClientMode>,
    subgraphs: bool,
    /// The last state of the root graph that was sent.
    values: Value,
    messages: MessageAssembler,
    /// The messages of subgraphs that the client does not receive. The mode `events` reports their models.
    hidden: MessageAssembler,
    /// Messages that were sent in pieces, with their namespaces. After the next state or update, or at the end of the
    /// run, the stream reports them as complete.
    sent_in_pieces: Vec<(Vec<String>, Value)>,
    runnables: Runnables,
}

impl StreamTranslator {
    pub(crate) fn new(run: Run, message_paths: MessagePaths, modes: Vec<ClientMode>, subgraphs: bool) -> Self {
        Self {
            run,
            message_paths,
            modes,
            subgraphs,
            values: json!({}),
            messages: MessageAssembler::default(),
            hidden: MessageAssembler::default(),
            sent_in_pieces: Vec::new(),
            runnables: Runnables::default(),
        }
    }

    /// Creates the first event of a run.
    pub(crate) fn opening(run: &Run, attempt: u32) -> SseEvent {
        SseEvent::new("metadata", json!({ "run_id": run.id, "attempt": attempt }))
    }

    /// Creates the event that replaces missing events. LangGraph's clients ignore it.
    pub(crate) fn gap(missed: u64) -> SseEvent {
        SseEvent::new("lagged", json!({ "missed": missed }))
    }

    fn has(&self, mode: ClientMode) -> bool {
        self.modes.contains(&mode)
    }

    pub(crate) fn event(&mut self, row: &EventRow) -> NumberedEvents {
        let (namespace, mut events) = (&*row.event.namespace, NumberedEvents::default());
        match &row.event.body {
            LogEvent::Message(message) => {
                self.message(message, namespace, &mut events);
                return events;
            }
            _ if !namespace.is_empty() && !self.subgraphs => return events,
            _ => {}
        }
        match self.message_paths.event(&row.event) {
            LogEvent::Start { attempt, .. } => {
                events.extend(1, [Self::opening(&self.run, attempt)]);
                let started = self.root("on_chain_start", || {
                    let mut input = self.run.request.shown_input();
                    self.message_paths.hide(&mut input);
                    json!({ "input": input })
                });
                events.extend(1, started);
            }
            LogEvent::Values(state) => self.state(state, namespace, &mut events),
            LogEvent::Updates(update) => {
                self.messages_of(&update, namespace, &mut events);
                self.update(update.to_json(), namespace, &mut events);
            }
            LogEvent::Interrupted(questions) => {
                self.update(json!({ "__interrupt__": question::logged(&questions) }), namespace, &mut events);
            }
            LogEvent::Custom { value, .. } => events.extend(1, self.plain(ClientMode::Custom, namespace, value)),
            LogEvent::Task(task) => {
                events.extend(1, self.plain(ClientMode::Tasks, namespace, self.task_payload(&task)));
            }
            LogEvent::Debug { timestamp, task } => {
                events.extend(2, self.node(&task, namespace));
                events.extend(1, self.debug(timestamp, &task, namespace));
            }
            LogEvent::Checkpoint(checkpoint) => self.checkpoint(&checkpoint, namespace, row.at, &mut events),
            LogEvent::Lagged { missed } => events.extend(1, [Self::gap(missed)]),
            LogEvent::End { .. } | LogEvent::Message(_) | LogEvent::StateUpdate { .. } => {}
        }
        events
    }

    fn plain(&self, mode: ClientMode, namespace: &[String], data: Value) -> Option<SseEvent> {
        self.has(mode).then(|| SseEvent::new(named(mode.name(), namespace), data))
    }

    fn state(&mut self, data: Value, namespace: &[String], events: &mut NumberedEvents) {
        if namespace.is_empty() {
            self.values.clone_from(&data);
        }
        events.extend(1, self.plain(ClientMode::Values, namespace, data));
        self.complete(events);
    }

    /// Reports the messages that were sent in pieces as complete. These events are the last ones of their log event,
    /// because only clients with the mode `messages` count them.
    fn complete(&mut self, events: &mut NumberedEvents) {
        let messages = std::mem::take(&mut self.sent_in_pieces);
        let complete = |(namespace, message): (Vec<String>, Value)| {
            SseEvent::new(named("messages/complete", &namespace), json!([message]))
        };
        events.extend(messages.len(), messages.into_iter().map(complete));
    }

    /// Sends the messages of an update that were not sent in pieces.
    fn messages_of(&mut self, update: &LoggedUpdate, namespace: &[String], events: &mut NumberedEvents) {
        if update.is_by_handler() {
            return;
        }
        let has_messages = self.has(ClientMode::Messages) || self.has(ClientMode::MessagesTuple);
        for (id, written) in written(&update.writes) {
            if has_messages && self.messages.note(id) {
                let metadata = self.message_metadata(&update.node, None, 0, namespace);
                self.whole(id, &Value::Object(written.clone()), &metadata, namespace, events);
            } else {
                events.extend(WHOLE, None);
            }
        }
    }

    fn update(&mut self, data: Value, namespace: &[String], events: &mut NumberedEvents) {
        events.extend(1, self.plain(ClientMode::Updates, namespace, data));
        // The modes of the run decide, so that a client that joins with other modes skips no message and gets none
        // twice.
        if !self.run.request.options.stream_mode.contains(&ClientMode::Values) {
            self.complete(events);
        }
    }

    /// Sends a message that was not sent in pieces, in [`WHOLE`] events.
    fn whole(&self, id: &str, message: &Value, metadata: &Value, namespace: &[String], events: &mut NumberedEvents) {
        let messages = self.has(ClientMode::Messages).then(|| {
            let about = json!({ id: { "metadata": metadata } });
            let about = SseEvent::new(named("messages/metadata", namespace), about);
            [about, SseEvent::new(named("messages/complete", namespace), json!([message]))]
        });
        events.extend(2, messages.into_iter().flatten());
        let tuple = self.has(ClientMode::MessagesTuple);
        events.extend(1, tuple.then(|| SseEvent::new(named("messages", namespace), json!([message, metadata]))));
    }

    fn message(&mut self, message: &LoggedMessage, namespace: &[String], events: &mut NumberedEvents) {
        let metadata = self.message_metadata(&message.node, Some(message.task), message.step, namespace);
        let is_hidden = !namespace.is_empty() && !self.subgraphs;
        let messages = if is_hidden { &mut self.hidden } else { &mut self.messages };
        let Some(delta) = messages.add(message) else { return };
        let has = |mode| self.modes.contains(&mode) && (mode == ClientMode::Events || !is_hidden);
        // A client that requests both modes reads pieces from `messages` until `events` has announced the model. So the
        // event about the model comes first.
        let about_model = has(ClientMode::Events)
            .then(|| runnables::model(&self.run, message, &delta, namespace, metadata.clone()))
            .into_iter()
            .flatten();
        events.extend(1 + usize::from(delta.is_first), about_model.map(SseEvent::runnable));
        if delta.is_first {
            let about = has(ClientMode::Messages).then(|| {
                let about = json!({ &message.id: { "metadata": metadata } });
                SseEvent::new(named("messages/metadata", namespace), about)
            });
            events.extend(1, about);
        }
        let mut piece = None;
        if has(ClientMode::Messages) {
            let (event, message) = match &delta.change {
                MessageChange::Done(message) if delta.is_first => ("messages/complete", message.clone()),
                MessageChange::Done(message) => {
                    self.sent_in_pieces.push((namespace.to_vec(), message.clone()));
                    ("messages/partial", message.clone())
                }
                MessageChange::Grown(_) => ("messages/partial", partial(&delta.sent)),
            };
            piece = Some(SseEvent::new(named(event, namespace), json!([message])));
        }
        events.extend(1, piece);
        if has(ClientMode::MessagesTuple) {
            let chunk = chunk(&delta);
            if !adds_nothing(&chunk) {
                events.extend(1, [SseEvent::new(named("messages", namespace), json!([chunk, metadata]))]);
            }
        }
    }

    /// Returns the metadata that all tasks and messages of the run have.
    pub(crate) fn metadata(&self) -> Map<String, Value> {
        let mut metadata = self.run.metadata.clone();
        metadata.insert("graph_id".into(), self.run.graph.clone().into());
        metadata.insert("assistant_id".into(), json!(self.run.assistant));
        metadata.insert("run_id".into(), self.run.id.to_string().into());
        metadata.insert("run_attempt".into(), self.run.attempts.max(1).into());
        metadata
    }

    fn message_metadata(&self, node: &str, task: Option<Uuid>, step: i64, namespace: &[String]) -> Value {
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

    fn task_payload(&self, task: &TaskEvent) -> Value {
        let mut data = question::task(task);
        if let TaskPhase::Started { .. } = task.phase {
            data["metadata"] = Value::Object(self.metadata());
            data["interrupts"] = json!([]);
        }
        data
    }

    fn debug(&self, millis: u64, task: &TaskEvent, namespace: &[String]) -> Option<SseEvent> {
        let at = SystemTime::UNIX_EPOCH + std::time::Duration::from_millis(millis);
        let data = json!({
            "step": task.step, "timestamp": iso(at), "type": task.phase.name(), "payload": self.task_payload(task),
        });
        self.plain(ClientMode::Debug, namespace, data)
    }

    fn checkpoint(
        &self,
        checkpoint: &LoggedCheckpoint,
        namespace: &[String],
        at: SystemTime,
        events: &mut NumberedEvents,
    ) {
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
        events.extend(1, self.plain(ClientMode::Checkpoints, namespace, payload.clone()));
        if self.has(ClientMode::Debug) {
            payload["checkpoint"] = flat(id);
            payload["parent_checkpoint"] = json!(parent.as_ref().map(flat));
            let debug = json!({ "step": step, "timestamp": iso(at), "type": "checkpoint", "payload": payload });
            events.extend(1, self.plain(ClientMode::Debug, namespace, debug));
        }
    }

    /// Creates an event of the mode `events` that reports the run.
    fn root(&self, event: &str, data: impl FnOnce() -> Value) -> Option<SseEvent> {
        self.has(ClientMode::Events)
            .then(|| SseEvent::runnable(runnables::root(&self.run, event, &data(), Value::Object(self.metadata()))))
    }

    /// Creates the events of the mode `events` that report a node.
    fn node(&mut self, task: &TaskEvent, namespace: &[String]) -> Vec<SseEvent> {
        if !self.has(ClientMode::Events) {
            return Vec::new();
        }
        let metadata = self.message_metadata(&task.node, Some(task.id), task.step, namespace);
        let events = self.runnables.node(&self.run, task, namespace, metadata);
        events.into_iter().map(SseEvent::runnable).collect()
    }

    /// Creates the last events of a run that has ended: its error, or its state with the open questions.
    pub(crate) fn end(&mut self, ended: &Run) -> NumberedEvents {
        let mut events = NumberedEvents::default();
        self.run = ended.clone();
        if let Some(error) = &ended.error {
            events.extend(1, [SseEvent::new("error", json!(error))]);
        } else if ended.status == RunStatus::Success {
            self.result(ended, &mut events);
        }
        self.complete(&mut events);
        events
    }

    fn result(&self, ended: &Run, events: &mut NumberedEvents) {
        let asked: Vec<Value> = questions(ended).map(question::asked).collect();
        let mut state = None;
        if !asked.is_empty() {
            let mut values = self.values.clone();
            if let Some(values) = values.as_object_mut() {
                values.insert("__interrupt__".into(), asked.into());
            }
            state = self.plain(ClientMode::Values, &[], values);
        }
        events.extend(1, state);
        events.extend(1, self.root("on_chain_end", || json!({ "output": output(&self.message_paths, ended) })));
    }
}

/// The number of events that send a whole message.
const WHOLE: usize = 3;

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

fn named(event: &str, namespace: &[String]) -> String {
    if namespace.is_empty() { event.to_owned() } else { format!("{event}|{}", namespace.join("|")) }
}
