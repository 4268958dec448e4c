//! Reports tasks to a stream and to `tracing`.

use serde_json::{Map, Value};
use tracing::Span;

use crate::engine::program::{By, Task, TaskOutcome};
use crate::engine::stream::emitter::Emitter;
use crate::engine::stream::event::{Event, NodeUpdate, StreamMode, logged, state_json};
use crate::error::{NodeError, NodeErrorKind};
use crate::runs::{TaskEvent, TaskPhase};
use crate::state::{ChannelWrite, Update, Values};

/// Returns true if spans of supersteps and tasks are recorded.
#[inline]
pub(crate) fn is_traced() -> bool {
    tracing::enabled!(tracing::Level::DEBUG)
}

pub(crate) fn step_span(step: i64) -> Span {
    tracing::debug_span!("step", step)
}

pub(crate) fn task_span<S: Values, C>(task: &Task<S, C>) -> Span {
    tracing::debug_span!("task", node = task.run.node(), step = task.run.key.step, send = task.run.key.send)
}

pub(crate) fn started<S: Values, C>(task: &Task<S, C>) -> TaskEvent {
    let input = task.sent_json().ok().flatten().map(|sent| without_secrets(task, sent));
    let triggers = match task.run.key.send {
        Some(_) => vec!["__pregel_push".to_owned()],
        None => task.graph.plan.triggers(task.run.key.node).to_vec(),
    };
    let input = input.or_else(|| state_json(task.state()).ok()).unwrap_or_default();
    event(task, task.run.node().to_owned(), TaskPhase::Started { triggers, input })
}

fn without_secrets<S: Values, C>(task: &Task<S, C>, mut sent: Value) -> Value {
    let (graph, node) = (&task.graph, task.run.key.node);
    let child = graph.child(node);
    let own = |name: &str| !graph.takes_sent(node) && graph.hides(name);
    remove(&mut sent, &|name| child.map_or_else(|| own(name), |child| child.erased().hides(name)));
    sent
}

fn remove(sent: &mut Value, hides: &dyn Fn(&str) -> bool) {
    if let Value::Object(channels) = sent {
        channels.retain(|name, _| !hides(name));
    }
}

fn event<S: Values, C>(task: &Task<S, C>, node: String, phase: TaskPhase) -> TaskEvent {
    TaskEvent { id: task.run.task_id(), node, step: task.run.key.step, phase }
}

/// Returns the name of a node in events, or that of its error handler.
fn shown_name(node: &str, is_handler: bool) -> String {
    if is_handler { format!("__error_handler__{node}") } else { node.to_owned() }
}

/// Returns the event of a task's result, without its writes to secret channels.
pub(crate) fn update<S: Values>(node: &str, done: &TaskOutcome<S>, cached: bool) -> Event<S> {
    let node = shown_name(node, done.by == By::Handler);
    let shown = done.writes.iter().filter(|write| !write.is_secret()).cloned().collect();
    Event::Updates(NodeUpdate { node, update: S::Update::from_writes(shown), cached })
}

pub(crate) fn report<S: Values, C>(
    emitter: &Emitter<S>,
    task: &Task<S, C>,
    result: &Result<TaskOutcome<S>, NodeError>,
) {
    if result.is_err() && task.is_paused() {
        return;
    }
    let node = task.run.node();
    if let Ok(done) = result
        && !done.is_for_parent()
        && emitter.wants(StreamMode::Updates)
    {
        emitter.emit(update(node, done, done.by == By::Cache));
    }
    if let Err(error) = result
        && let NodeErrorKind::Interrupt(questions) = error.kind()
        && !questions.is_empty()
    {
        emitter.interrupted(questions);
    }
    if !emitter.wants_tasks() || matches!(result, Ok(done) if done.by == By::Cache) {
        return;
    }
    let is_handler = result.as_ref().map_or_else(NodeError::is_of_handler, |done| done.by == By::Handler);
    let (result, error, interrupts) = match result {
        Ok(done) => (done.writes.to_json().unwrap_or_default(), None, Vec::new()),
        Err(error) => match error.kind() {
            NodeErrorKind::Interrupt(questions) => (Value::Null, None, logged(questions)),
            _ => (Value::Null, Some(error.to_string()), Vec::new()),
        },
    };
    // As in LangGraph, a task without writes has an empty object here, and null in the mode `updates`.
    let result = if result.is_null() { Value::Object(Map::new()) } else { result };
    emitter.task(event(task, shown_name(node, is_handler), TaskPhase::Finished { result, error, interrupts }));
}
