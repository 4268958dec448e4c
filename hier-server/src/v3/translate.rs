//! Turns the log of a thread into the events of the second protocol.
//!
//! Every event of the log becomes at most [`PARTS`] events, and their numbers follow from its number: they rise, they are the
//! same whenever and wherever they are told, and whatever a client leaves out of them.

use std::collections::{BTreeMap, HashMap, HashSet};

use hier_core::runs::{EventRow, Failure, LogEvent, LoggedUpdate, Run, RunStatus, StreamMode, TaskEvent, TaskPhase};
use serde_json::{Value, json};
use uuid::Uuid;

use super::messages;
use crate::stream::assembler::{MessageAssembler, calls, field, written};
use crate::time::millis;
use crate::wire::places::Places;
use crate::wire::row::questions;
use crate::wire::{message, question};

/// How many events one of the log becomes at most. A step of many graphs releases the states of all of them at once.
const PARTS: u64 = 4_096;

/// Offset between the event numbers of two passes over one thread. A connection that reads a thread again adds it to the numbers, because
/// clients ignore events whose numbers are lower than that of a run's end.
const PASS: u64 = 1 << 40;

/// Number of passes whose event numbers fit into a JavaScript integer.
const LAST_PASS: u64 = 8_000;

/// The number of the event at this position of the thread when it is sent in this pass.
pub(crate) fn numbered(position: u64, pass: u64) -> u64 {
    position.saturating_add(pass.min(LAST_PASS) * PASS)
}

/// Returns the position in the thread of the event with this number, in any pass.
pub(crate) fn position(seq: u64) -> u64 {
    seq % PASS
}

/// An event.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Frame {
    pub(crate) seq: u64,
    pub(crate) event_id: String,
    pub(crate) method: &'static str,
    pub(crate) namespace: Vec<String>,
    /// Milliseconds since 1970.
    pub(crate) at: u64,
    pub(crate) node: Option<String>,
    pub(crate) data: Value,
}

impl Frame {
    /// Renumbers the event for this pass over the thread.
    pub(crate) fn in_pass(mut self, pass: u64) -> Self {
        self.seq = numbered(self.seq, pass);
        self
    }

    /// Returns true for the event that ends a run: the last one of the root graph.
    pub(crate) fn ends_run(&self) -> bool {
        let event = self.data.get("event").and_then(Value::as_str);
        self.method == "lifecycle"
            && self.namespace.is_empty()
            && matches!(event, Some("completed" | "failed" | "interrupted"))
    }

    /// The event as it goes over the wire.
    pub(crate) fn json(&self) -> Value {
        let mut params = json!({ "namespace": self.namespace, "timestamp": self.at, "data": self.data });
        if let Some(node) = &self.node {
            params["node"] = node.as_str().into();
        }
        json!({ "type": "event", "event_id": self.event_id, "seq": self.seq, "method": self.method, "params": params })
    }
}

/// What is known of a run that is being told.
#[derive(Debug, Default)]
struct Known {
    graph: String,
    places: Places,
    messages: MessageAssembler,
    /// Graphs within that run now, by their namespaces.
    children: HashSet<Vec<String>>,
    /// Calls of tools that have begun.
    calls: HashSet<String>,
    /// Graphs within that have ended, in that order, which is told once the step around them is stored: who learns of the end
    /// reads the state.
    ended: Vec<Ended>,
    /// States by namespace, each held back until the checkpoint of its step, because clients connect a state to the preceding checkpoint.
    states: BTreeMap<Vec<String>, (u64, Value)>,
}

/// The end of a graph within.
#[derive(Debug)]
struct Ended {
    /// The graph.
    namespace: Vec<String>,
    graph: String,
    event: &'static str,
    more: Value,
}

/// Translates a thread's log, in the order of its events.
#[derive(Debug, Default)]
pub(crate) struct Translator(HashMap<Uuid, Known>);

/// Collects what one event of the log becomes.
struct Telling<'a> {
    row: &'a EventRow,
    run: Uuid,
    frames: Vec<Frame>,
}

impl Telling<'_> {
    fn tell(&mut self, method: &'static str, namespace: &[String], data: Value) -> &mut Frame {
        let part = self.frames.len() as u64;
        let seq = self.row.number.saturating_mul(PARTS).saturating_add(part.min(PARTS - 1));
        let event_id = format!("{}-{part}", self.row.number);
        let at = millis(self.row.at);
        self.frames.push(Frame { seq, event_id, method, namespace: namespace.to_vec(), at, node: None, data });
        let last = self.frames.len() - 1;
        &mut self.frames[last]
    }

    fn lifecycle(&mut self, namespace: &[String], event: &str, graph: &str, more: Value) {
        let mut data = json!({ "event": event, "graph_name": graph });
        if let (Some(data), Value::Object(more)) = (data.as_object_mut(), more) {
            data.extend(more);
        }
        let id = format!("synth:{}:lc|{}|{event}", self.run, namespace.join("|"));
        self.tell("lifecycle", namespace, data).event_id = id;
    }
}

impl Translator {
    /// What an event becomes. Of the last event of a run, with the run as it ended.
    pub(crate) fn event(
        &mut self,
        row: &EventRow,
        ended: Option<&Run>,
        graph: impl FnOnce() -> (String, Places),
    ) -> Vec<Frame> {
        let Some(run) = row.event.run else { return Vec::new() };
        let known = self.0.entry(run).or_default();
        if known.graph.is_empty() {
            (known.graph, known.places) = graph();
        }
        let mut telling = Telling { row, run, frames: Vec::new() };
        let namespace = &*row.event.namespace;
        let body = known.places.event(&row.event);
        known.release_states(namespace, matches!(body, LogEvent::Checkpoint(_)), &mut telling);
        known.discover(namespace, &mut telling);
        match body {
            LogEvent::Start { .. } => {
                let graph = known.graph.clone();
                telling.lifecycle(&[], "running", &graph, Value::Null);
            }
            LogEvent::End { status, error, .. } => {
                known.end(ended, status, error, &mut telling);
                self.0.remove(&run);
            }
            LogEvent::Message(message) => {
                for told in messages::events(&mut known.messages, &message) {
                    telling.tell("messages", namespace, told);
                }
            }
            LogEvent::Values(state) => drop(known.states.insert(namespace.to_vec(), (millis(row.at), state))),
            LogEvent::Updates(update) => known.update(&update, namespace, &mut telling),
            LogEvent::Custom { node, value } => telling.tell("custom", namespace, value).node = Some(node),
            LogEvent::Task(task) => known.task(&task, namespace, &mut telling),
            LogEvent::Checkpoint(checkpoint) => {
                let told = json!({
                    "id": checkpoint.id, "parent_id": checkpoint.parent, "step": checkpoint.step,
                    "source": checkpoint.source,
                });
                telling.tell("checkpoints", namespace, told);
                known.release_states(namespace, false, &mut telling);
                // The last checkpoint of a graph is stored with its end.
                if !checkpoint.next.is_empty() {
                    known.tell_ends(Some(namespace), &mut telling);
                }
            }
            LogEvent::Interrupted(_)
            | LogEvent::Debug { .. }
            | LogEvent::Lagged { .. }
            | LogEvent::StateUpdate { .. } => {}
        }
        telling.frames
    }
}

impl Known {
    /// Sends the states that are held back for this graph and its inner graphs, the innermost first. A checkpoint releases only those of
    /// the inner graphs: its own state follows it.
    fn release_states(&mut self, namespace: &[String], only_within: bool, telling: &mut Telling<'_>) {
        let is_due = |held: &[String]| held.starts_with(namespace) && !(only_within && held.len() == namespace.len());
        let mut due: Vec<Vec<String>> = self.states.keys().filter(|held| is_due(held)).cloned().collect();
        due.sort_by_key(|held| std::cmp::Reverse(held.len()));
        for namespace in due {
            let Some((at, state)) = self.states.remove(&namespace) else { continue };
            telling.tell("values", &namespace, state).at = at;
        }
    }

    /// A graph within is known by the first event that comes from it.
    fn discover(&mut self, namespace: &[String], telling: &mut Telling<'_>) {
        for depth in 1..=namespace.len() {
            let Some(level) = namespace.get(..depth) else { continue };
            if !self.children.insert(level.to_vec()) {
                continue;
            }
            let (graph, task) = level.last().and_then(|last| last.split_once(':')).unwrap_or_default();
            let more = json!({ "namespace": level, "trigger_call_id": task });
            let (graph, level) = (graph.to_owned(), level.to_vec());
            telling.lifecycle(&level, "started", &graph, more);
        }
    }

    fn update(&mut self, update: &LoggedUpdate, namespace: &[String], telling: &mut Telling<'_>) {
        if !update.is_by_handler() {
            self.tools(&update.writes, namespace, telling);
            let told = json!({ "node": update.node, "values": update.writes });
            telling.tell("updates", namespace, told).node = Some(update.node.clone());
        }
    }

    /// Calls of tools, as the messages of an update tell of them.
    fn tools(&mut self, writes: &Value, namespace: &[String], telling: &mut Telling<'_>) {
        for (id, message) in written(writes) {
            let whole = Value::Object(message.clone());
            self.messages.note(id);
            for call in calls(&whole) {
                let (id, name) = (field(call, "id"), field(call, "name"));
                if self.calls.insert(id.to_owned()) {
                    let told = json!({
                        "event": "tool-started", "tool_call_id": id, "tool_name": name, "input": call.get("args"),
                    });
                    telling.tell("tools", namespace, told);
                }
            }
            let Some(call) = message.get("tool_call_id").and_then(Value::as_str) else { continue };
            let failed = message.get("status").is_some_and(|status| status == "error");
            let told = if failed {
                json!({ "event": "tool-error", "tool_call_id": call, "message": message::text(&whole) })
            } else {
                json!({ "event": "tool-finished", "tool_call_id": call, "output": whole })
            };
            telling.tell("tools", namespace, told);
        }
    }

    fn task(&mut self, task: &TaskEvent, namespace: &[String], telling: &mut Telling<'_>) {
        // The graph that the task ran has ended with it.
        if let TaskPhase::Finished { error, interrupts, .. } = &task.phase {
            let mut child = namespace.to_vec();
            child.push(format!("{}:{}", task.node, task.id));
            let (event, more) = match (error, interrupts.is_empty()) {
                (Some(error), _) => ("failed", json!({ "error": error })),
                (None, false) => ("interrupted", Value::Null),
                (None, true) => ("completed", Value::Null),
            };
            if self.children.remove(&child) {
                self.ended.push(Ended { namespace: child, graph: task.node.clone(), event, more });
            }
        }
        telling.tell("tasks", namespace, question::task(task));
    }

    /// Tells which graphs directly within this one have ended, and those within them; all, if none is named.
    fn tell_ends(&mut self, around: Option<&[String]>, telling: &mut Telling<'_>) {
        let is_within =
            |ended: &Ended, around: &[String]| ended.namespace.split_last().is_some_and(|(_, of)| of == around);
        let told = self.ended.iter().filter(|ended| around.is_none_or(|around| is_within(ended, around)));
        let told: Vec<Vec<String>> = told.map(|ended| ended.namespace.clone()).collect();
        let is_told = |ended: &Ended| told.iter().any(|told| ended.namespace.starts_with(told));
        // What is within another ended before it.
        let (told, rest) = std::mem::take(&mut self.ended).into_iter().partition(is_told);
        self.ended = rest;
        let told: Vec<Ended> = told;
        for Ended { namespace, graph, event, more } in told {
            telling.lifecycle(&namespace, event, &graph, more);
        }
    }

    /// Sends questions first, then the end of the root, then the ends of waiting inner graphs, because a client reads the questions when
    /// it learns that the thread waits. Without questions, the inner graphs end before the root.
    fn end(&mut self, ended: Option<&Run>, status: RunStatus, error: Option<Failure>, telling: &mut Telling<'_>) {
        let graph = self.graph.clone();
        let is_asking = ended.is_some_and(|ended| questions(ended).next().is_some());
        if !is_asking {
            self.tell_ends(None, telling);
        }
        for asked in ended.into_iter().flat_map(questions) {
            let id = asked.get("id").and_then(Value::as_str).unwrap_or_default();
            // One client reads `payload`, another `value`.
            let told = json!({ "interrupt_id": id, "payload": asked.get("value"), "value": asked.get("value") });
            let namespace = asked.get("namespace").and_then(Value::as_array).into_iter().flatten();
            let namespace: Vec<String> = namespace.filter_map(Value::as_str).map(str::to_owned).collect();
            let event_id = format!("synth:{}:input|{}|{id}", telling.run, namespace.join("|"));
            telling.tell("input.requested", &namespace, told).event_id = event_id;
        }
        let is_cancelled = [Some(status), ended.map(|run| run.status)].contains(&Some(RunStatus::Interrupted));
        let failure = ended.and_then(|run| run.error.clone()).or(error);
        if let Some(error) = failure {
            telling.lifecycle(&[], "failed", &graph, json!({ "error": error.message }));
        } else if is_asking || is_cancelled {
            telling.lifecycle(&[], "interrupted", &graph, Value::Null);
        } else {
            telling.lifecycle(&[], "completed", &graph, Value::Null);
        }
        self.tell_ends(None, telling);
    }
}

/// The modes of the engine that the second protocol is made of.
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

    /// A client that goes on after a number would miss the others with the same number.
    #[test]
    fn events_of_a_step_with_many_graphs_have_numbers_of_their_own() {
        let (run, mut translator) = (Uuid::from_u128(1), Translator::default());
        let mut all = Vec::new();
        let mut tell = |number, event: NewEvent| {
            let row = EventRow::new(number, SystemTime::UNIX_EPOCH, event);
            let frames = translator.event(&row, None, || ("wide".to_owned(), Places::default()));
            all.extend(frames.iter().map(|frame| frame.seq));
            frames.len()
        };
        for graph in 0..1_000 {
            let event = NewEvent::new(run, LogEvent::Values(json!({ "n": graph })));
            tell(graph + 1, event.namespace(vec![format!("inner:{graph}")]));
        }
        let checkpoint = LogEvent::Checkpoint(LoggedCheckpoint {
            id: run,
            parent: None,
            step: 1,
            source: Source::Loop,
            values: json!({}),
            next: vec!["inner".to_owned()],
        });
        assert_eq!(tell(1_001, NewEvent::new(run, checkpoint)), 1_001);
        assert!(all.is_sorted_by(|a, b| a < b), "they rise");
        assert!(all.iter().all(|seq| *seq < PASS));
    }
}
