//! Translates the log of a thread into the events of the v3 event protocol.
//!
//! A log event becomes at most [`PARTS`] events. Their numbers are derived from the number of the log event. The
//! numbers rise, and are the same in all connections and for all filters.

use std::collections::{BTreeMap, HashMap, HashSet};

use hier_core::runs::{EventRow, Failure, LogEvent, LoggedUpdate, Run, RunStatus, StreamMode, TaskEvent, TaskPhase};
use serde_json::{Value, json};
use uuid::Uuid;

use super::messages;
use crate::stream::assembler::{MessageAssembler, calls, field, written};
use crate::time::millis;
use crate::wire::message_paths::MessagePaths;
use crate::wire::row::questions;
use crate::wire::{message, question};

/// Maximum number of events for one log event. It is large because one checkpoint releases the states of all its
/// subgraphs.
const PARTS: u64 = 4_096;

/// Difference between the numbers of an event in two successive passes over a thread. A connection that reads a thread
/// again begins a pass with greater numbers, because clients ignore events with numbers below the number of a run's
/// end.
const PASS: u64 = 1 << 40;

/// The name of the event that replaces missing events.
const GAP: &str = "lagged";

/// Number of passes for which the event numbers fit into an integer of JavaScript.
const LAST_PASS: u64 = 8_000;

/// Returns the number of the event at this position in this pass.
pub(crate) fn numbered(position: u64, pass: u64) -> u64 {
    position.saturating_add(pass.min(LAST_PASS) * PASS)
}

/// Returns the position in the thread of the event with this number, which may come from any pass.
pub(crate) fn position(seq: u64) -> u64 {
    seq % PASS
}

/// Returns the number of the log event to which the event at this position belongs.
pub(crate) fn log_number(position: u64) -> u64 {
    position / PARTS
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct V3Event {
    pub(crate) seq: u64,
    pub(crate) event_id: String,
    pub(crate) method: &'static str,
    pub(crate) namespace: Vec<String>,
    /// Milliseconds since 1970.
    pub(crate) at: u64,
    pub(crate) node: Option<String>,
    pub(crate) data: Value,
}

impl V3Event {
    pub(crate) fn in_pass(mut self, pass: u64) -> Self {
        self.seq = numbered(self.seq, pass);
        self
    }

    /// Returns true for the event that replaces missing events. LangGraph's clients ignore it.
    pub(crate) fn is_gap(&self) -> bool {
        self.method == GAP
    }

    /// Returns true for the event that ends a run, which is the last event of the root graph.
    pub(crate) fn ends_run(&self) -> bool {
        let event = self.data.get("event").and_then(Value::as_str);
        self.method == "lifecycle"
            && self.namespace.is_empty()
            && matches!(event, Some("completed" | "failed" | "interrupted"))
    }

    pub(crate) fn json(&self) -> Value {
        let mut params = json!({ "namespace": self.namespace, "timestamp": self.at, "data": self.data });
        if let Some(node) = &self.node {
            params["node"] = node.as_str().into();
        }
        json!({ "type": "event", "event_id": self.event_id, "seq": self.seq, "method": self.method, "params": params })
    }
}

/// The state of the translation of one run.
#[derive(Debug, Default)]
struct RunProjection {
    graph: String,
    message_paths: MessagePaths,
    messages: MessageAssembler,
    /// Namespaces of the running subgraphs.
    children: HashSet<Vec<String>>,
    /// Tool calls that have begun.
    calls: HashSet<String>,
    /// Subgraphs that have ended, in order. Their ends are sent once the superstep around them is stored, because
    /// clients then read the stored state.
    ended: Vec<SubgraphEnd>,
    /// States by namespace. Each state is held back until the checkpoint of its superstep was sent, because clients
    /// connect a state to the checkpoint before it.
    states: BTreeMap<Vec<String>, (u64, Value)>,
}

#[derive(Debug)]
struct SubgraphEnd {
    namespace: Vec<String>,
    graph: String,
    event: &'static str,
    more: Value,
}

/// Translates the log of a thread, in order.
#[derive(Debug, Default)]
pub(crate) struct V3Translator(HashMap<Uuid, RunProjection>);

/// Numbers and collects the events for one log event.
struct EventBuilder<'a> {
    row: &'a EventRow,
    run: Uuid,
    events: Vec<V3Event>,
}

impl EventBuilder<'_> {
    fn push(&mut self, method: &'static str, namespace: &[String], data: Value) -> &mut V3Event {
        let part = self.events.len() as u64;
        let seq = self.row.number.saturating_mul(PARTS).saturating_add(part.min(PARTS - 1));
        let event_id = format!("{}-{part}", self.row.number);
        let at = millis(self.row.at);
        self.events.push(V3Event { seq, event_id, method, namespace: namespace.to_vec(), at, node: None, data });
        let last = self.events.len() - 1;
        &mut self.events[last]
    }

    fn lifecycle(&mut self, namespace: &[String], event: &str, graph: &str, more: Value) {
        let mut data = json!({ "event": event, "graph_name": graph });
        if let (Some(data), Value::Object(more)) = (data.as_object_mut(), more) {
            data.extend(more);
        }
        let id = format!("synth:{}:lc|{}|{event}", self.run, namespace.join("|"));
        self.push("lifecycle", namespace, data).event_id = id;
    }
}

impl V3Translator {
    /// Translates an event of the log. For the last event of a run, `ended` is the row of the run.
    pub(crate) fn event(
        &mut self,
        row: &EventRow,
        ended: Option<&Run>,
        graph: impl FnOnce() -> (String, MessagePaths),
    ) -> Vec<V3Event> {
        if let LogEvent::Lagged { missed } = row.event.body {
            let mut builder = EventBuilder { row, run: row.event.run.unwrap_or_default(), events: Vec::new() };
            builder.push(GAP, &[], json!({ "missed": missed }));
            return builder.events;
        }
        let Some(run) = row.event.run else { return Vec::new() };
        let projection = self.0.entry(run).or_default();
        if projection.graph.is_empty() {
            (projection.graph, projection.message_paths) = graph();
        }
        let mut builder = EventBuilder { row, run, events: Vec::new() };
        let namespace = &*row.event.namespace;
        let body = projection.message_paths.event(&row.event);
        projection.release_states(namespace, matches!(body, LogEvent::Checkpoint(_)), &mut builder);
        projection.announce_subgraphs(namespace, &mut builder);
        match body {
            LogEvent::Start { .. } => {
                let graph = projection.graph.clone();
                builder.lifecycle(&[], "running", &graph, Value::Null);
            }
            LogEvent::End { status, error, .. } => {
                projection.end(ended, status, error, &mut builder);
                self.0.remove(&run);
            }
            LogEvent::Message(message) => {
                for data in messages::events(&mut projection.messages, &message) {
                    builder.push("messages", namespace, data);
                }
            }
            LogEvent::Values(state) => drop(projection.states.insert(namespace.to_vec(), (millis(row.at), state))),
            LogEvent::Updates(update) => projection.update(&update, namespace, &mut builder),
            LogEvent::Custom { node, value } => builder.push("custom", namespace, value).node = Some(node),
            LogEvent::Task(task) => projection.task(&task, namespace, &mut builder),
            LogEvent::Checkpoint(checkpoint) => {
                let data = json!({
                    "id": checkpoint.id, "parent_id": checkpoint.parent, "step": checkpoint.step,
                    "source": checkpoint.source,
                });
                builder.push("checkpoints", namespace, data);
                projection.release_states(namespace, false, &mut builder);
                // The last checkpoint of a graph is stored together with the end of the graph. The ends of its
                // subgraphs are sent with that end.
                if !checkpoint.next.is_empty() {
                    projection.push_ends(Some(namespace), &mut builder);
                }
            }
            LogEvent::Interrupted(_)
            | LogEvent::Debug { .. }
            | LogEvent::Lagged { .. }
            | LogEvent::StateUpdate { .. } => {}
        }
        builder.events
    }
}

impl RunProjection {
    /// Sends the states that are held back for this graph and its subgraphs, innermost first. With `only_within`, sends
    /// only the states of the subgraphs. Before a checkpoint is sent, this graph's state must wait, because clients
    /// receive the state after its checkpoint.
    fn release_states(&mut self, namespace: &[String], only_within: bool, builder: &mut EventBuilder<'_>) {
        let is_due = |held: &[String]| held.starts_with(namespace) && !(only_within && held.len() == namespace.len());
        let mut due: Vec<Vec<String>> = self.states.keys().filter(|held| is_due(held)).cloned().collect();
        due.sort_by_key(|held| std::cmp::Reverse(held.len()));
        for namespace in due {
            let Some((at, state)) = self.states.remove(&namespace) else { continue };
            builder.push("values", &namespace, state).at = at;
        }
    }

    /// Announces a subgraph before its first event.
    fn announce_subgraphs(&mut self, namespace: &[String], builder: &mut EventBuilder<'_>) {
        for depth in 1..=namespace.len() {
            let Some(level) = namespace.get(..depth) else { continue };
            if !self.children.insert(level.to_vec()) {
                continue;
            }
            let (graph, task) = level.last().and_then(|last| last.split_once(':')).unwrap_or_default();
            let more = json!({ "namespace": level, "trigger_call_id": task });
            let (graph, level) = (graph.to_owned(), level.to_vec());
            builder.lifecycle(&level, "started", &graph, more);
        }
    }

    fn update(&mut self, update: &LoggedUpdate, namespace: &[String], builder: &mut EventBuilder<'_>) {
        if !update.is_by_handler() {
            self.tools(&update.writes, namespace, builder);
            let data = json!({ "node": update.node, "values": update.writes });
            builder.push("updates", namespace, data).node = Some(update.node.clone());
        }
    }

    /// Sends the starts and ends of the tool calls that the messages of an update contain.
    fn tools(&mut self, writes: &Value, namespace: &[String], builder: &mut EventBuilder<'_>) {
        for (id, message) in written(writes) {
            let whole = Value::Object(message.clone());
            self.messages.note(id);
            for call in calls(&whole) {
                let (id, name) = (field(call, "id"), field(call, "name"));
                if self.calls.insert(id.to_owned()) {
                    let data = json!({
                        "event": "tool-started", "tool_call_id": id, "tool_name": name, "input": call.get("args"),
                    });
                    builder.push("tools", namespace, data);
                }
            }
            let Some(call) = message.get("tool_call_id").and_then(Value::as_str) else { continue };
            let failed = message.get("status").is_some_and(|status| status == "error");
            let data = if failed {
                json!({ "event": "tool-error", "tool_call_id": call, "message": message::text(&whole) })
            } else {
                json!({ "event": "tool-finished", "tool_call_id": call, "output": whole })
            };
            builder.push("tools", namespace, data);
        }
    }

    fn task(&mut self, task: &TaskEvent, namespace: &[String], builder: &mut EventBuilder<'_>) {
        // The subgraph of a task ends with the task.
        if let TaskPhase::Finished { error, interrupts, .. } = &task.phase {
            let mut child = namespace.to_vec();
            // An error handler ends after its node, whose own end is missing if its process was killed.
            let node = task.node.strip_prefix("__error_handler__").unwrap_or(&task.node);
            child.push(format!("{node}:{}", task.id));
            let (event, more) = match (error, interrupts.is_empty()) {
                (Some(error), _) => ("failed", json!({ "error": error })),
                (None, false) => ("interrupted", Value::Null),
                (None, true) => ("completed", Value::Null),
            };
            if self.children.remove(&child) {
                self.ended.push(SubgraphEnd { namespace: child, graph: node.to_owned(), event, more });
            }
        }
        builder.push("tasks", namespace, question::task(task));
    }

    /// Sends the ends of subgraphs. With `around`, sends only the ends of the subgraphs directly in that namespace, and
    /// of all subgraphs inside these.
    fn push_ends(&mut self, around: Option<&[String]>, builder: &mut EventBuilder<'_>) {
        let is_within =
            |ended: &SubgraphEnd, around: &[String]| ended.namespace.split_last().is_some_and(|(_, of)| of == around);
        let due = self.ended.iter().filter(|ended| around.is_none_or(|around| is_within(ended, around)));
        let due: Vec<Vec<String>> = due.map(|ended| ended.namespace.clone()).collect();
        let is_due = |ended: &SubgraphEnd| due.iter().any(|due| ended.namespace.starts_with(due));
        // An inner graph has ended before the graph around it.
        let (due, rest): (Vec<SubgraphEnd>, _) = std::mem::take(&mut self.ended).into_iter().partition(is_due);
        self.ended = rest;
        for SubgraphEnd { namespace, graph, event, more } in due {
            builder.lifecycle(&namespace, event, &graph, more);
        }
    }

    /// Sends the end of a run. If the run asks questions, sends the questions first, then the end of the root graph,
    /// then the ends of subgraphs, because a client reads the questions when it learns that the thread waits.
    /// Otherwise, the subgraphs end before the root graph.
    fn end(&mut self, ended: Option<&Run>, status: RunStatus, error: Option<Failure>, builder: &mut EventBuilder<'_>) {
        let graph = self.graph.clone();
        let is_asking = ended.is_some_and(|ended| questions(ended).next().is_some());
        if !is_asking {
            self.push_ends(None, builder);
        }
        for asked in ended.into_iter().flat_map(questions) {
            let id = asked.get("id").and_then(Value::as_str).unwrap_or_default();
            // Some clients read `payload`, and others read `value`.
            let data = json!({ "interrupt_id": id, "payload": asked.get("value"), "value": asked.get("value") });
            let namespace = asked.get("namespace").and_then(Value::as_array).into_iter().flatten();
            let namespace: Vec<String> = namespace.filter_map(Value::as_str).map(str::to_owned).collect();
            let event_id = format!("synth:{}:input|{}|{id}", builder.run, namespace.join("|"));
            builder.push("input.requested", &namespace, data).event_id = event_id;
        }
        let is_cancelled = [Some(status), ended.map(|run| run.status)].contains(&Some(RunStatus::Interrupted));
        let failure = ended.and_then(|run| run.error.clone()).or(error);
        if let Some(error) = failure {
            builder.lifecycle(&[], "failed", &graph, json!({ "error": error.message }));
        } else if is_asking || is_cancelled {
            builder.lifecycle(&[], "interrupted", &graph, Value::Null);
        } else {
            builder.lifecycle(&[], "completed", &graph, Value::Null);
        }
        self.push_ends(None, builder);
    }
}

/// The modes of the engine that provide the events of the protocol.
pub(crate) const RECORDED: [StreamMode; 6] = [
    StreamMode::Values,
    StreamMode::Updates,
    StreamMode::Messages,
    StreamMode::Custom,
    StreamMode::Tasks,
    StreamMode::Checkpoints,
];

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use hier_core::checkpoint::Source;
    use hier_core::runs::{LoggedCheckpoint, NewEvent};

    use super::*;

    /// If several events had the same number, a client that continues after this number would miss events.
    #[test]
    fn events_of_a_step_with_many_graphs_have_distinct_numbers() {
        let (run, mut translator) = (Uuid::from_u128(1), V3Translator::default());
        let mut all = Vec::new();
        let mut translate = |number, event: NewEvent| {
            let row = EventRow::new(number, SystemTime::UNIX_EPOCH, event);
            let events = translator.event(&row, None, || ("wide".to_owned(), MessagePaths::default()));
            all.extend(events.iter().map(|event| event.seq));
            events.len()
        };
        for graph in 0..1_000 {
            let event = NewEvent::new(run, LogEvent::Values(json!({ "n": graph })));
            translate(graph + 1, event.namespace(vec![format!("inner:{graph}")]));
        }
        let checkpoint = LogEvent::Checkpoint(LoggedCheckpoint {
            id: run,
            parent: None,
            step: 1,
            source: Source::Loop,
            values: json!({}),
            next: vec!["inner".to_owned()],
        });
        assert_eq!(translate(1_001, NewEvent::new(run, checkpoint)), 1_001);
        assert!(all.is_sorted_by(|a, b| a < b), "they rise");
        assert!(all.iter().all(|seq| *seq < PASS));
    }
}
