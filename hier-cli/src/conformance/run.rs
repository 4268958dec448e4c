//! Does the calls of a scenario, and writes down what happened in the form in which the reference was recorded.

use hier_core::graph::CompiledGraph;
use hier_core::state::{DynState, DynUpdate, Update};
use hier_core::{Config, Event, NodeUpdate, Outcome, RunError, StreamMode};
use serde_json::{Map, Value, json};

use super::build::build;
use super::python::dumps;
use super::scenario::{Ask, Call, Scenario};

/// What came of a scenario.
pub(crate) enum Answer {
    /// It needs what is not there yet.
    Needs(&'static str),
    /// The graph was refused.
    Refused(String),
    /// What each call did.
    Calls(Calls),
}

/// What each call did.
#[derive(Default)]
pub(crate) struct Calls {
    /// The events, in the form of the recorded ones.
    pub(crate) events: Vec<Value>,
    /// How each ended.
    pub(crate) ends: Vec<Value>,
    /// How each ended when nobody listened: runs without a stream take shorter ways, which must lead to the same end.
    pub(crate) quiet_ends: Vec<Value>,
}

/// Builds the graph and does the calls. The error says what is wrong with this computer.
pub(crate) fn run(scenario: &Scenario) -> Result<Answer, String> {
    // Nodes count how often they failed over all calls, so that each series of calls needs a graph of its own.
    let (graph, quiet) = match build(scenario).and_then(|graph| Ok((graph, build(scenario)?))) {
        Ok(graphs) => graphs,
        Err(error) => return Ok(Answer::Refused(error.to_string())),
    };
    let settings = &scenario.settings;
    let stops = !settings.interrupt_before.is_empty() || !settings.interrupt_after.is_empty();
    let inputs: Option<Vec<(&Value, &Call)>> = settings.calls.iter().map(input).collect();
    let Some(inputs) = inputs.filter(|_| !settings.checkpointer && !stops) else {
        return Ok(Answer::Needs("needs a saver"));
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
    let runtime = runtime.map_err(|error| format!("cannot be run, because there is no runtime: {error}"))?;
    let mut calls = Calls::default();
    for (input, call) in inputs {
        let (events, end) = runtime.block_on(stream(scenario, &graph, input, call));
        calls.events.push(events);
        calls.ends.push(end);
        calls.quiet_ends.push(runtime.block_on(invoke(&quiet, input, call)));
    }
    Ok(Answer::Calls(calls))
}

/// What a call invokes the graph with; none if it is about something that was saved.
fn input(call: &Call) -> Option<(&Value, &Call)> {
    match &call.ask {
        Ask::Invoke(input) if call.from.is_none() => Some((input, call)),
        _ => None,
    }
}

/// The input of a run: none to go on.
fn update(graph: &CompiledGraph<DynState>, input: &Value) -> Result<Option<DynUpdate>, String> {
    let update = (!input.is_null()).then(|| graph.update(input.clone())).transpose();
    update.map_err(|error| error.to_string())
}

/// Runs the graph and writes down its events and how it ended.
async fn stream(scenario: &Scenario, graph: &CompiledGraph<DynState>, input: &Value, call: &Call) -> (Value, Value) {
    // The events are taken as they come; the bound only says how far the run may be ahead.
    let config = Config::default().recursion_limit(call.recursion_limit).stream_capacity(1 << 24);
    let modes = [StreamMode::Values, StreamMode::Updates, StreamMode::Custom];
    let mut events = match update(graph, input) {
        Ok(Some(update)) => graph.stream(update, config, (), modes),
        Ok(None) => graph.stream((), config, (), modes),
        Err(error) => return (failed(&[], "input", &error), Value::from(error)),
    };
    let mut record = Record { scenario, steps: Vec::new(), open: Step::default(), interrupts: Vec::new() };
    while let Some(event) = events.next().await {
        match event {
            Ok(event) => record.note(event),
            Err(error) => return (record.failed(&error), end(&Err(error))),
        }
    }
    (record.ended(), end(&events.outcome().await))
}

/// Runs the graph without listening and writes down how it ended.
async fn invoke(graph: &CompiledGraph<DynState>, input: &Value, call: &Call) -> Value {
    let config = Config::default().recursion_limit(call.recursion_limit);
    match update(graph, input) {
        Ok(Some(update)) => end(&graph.invoke(update, config, ()).await),
        Ok(None) => end(&graph.invoke((), config, ()).await),
        Err(error) => Value::from(error),
    }
}

/// How a run ended.
fn end(outcome: &Result<Outcome<DynState>, RunError>) -> Value {
    match outcome {
        Ok(outcome) => json!({ "finished": outcome.is_finished(), "state": outcome.state().to_value() }),
        Err(error) => json!({ "error": error.to_string() }),
    }
}

/// What came since the last `values` event.
#[derive(Default)]
struct Step {
    custom: Vec<Value>,
    updates: Vec<Value>,
}

impl Step {
    /// The entry, with what may come in any order sorted by its text.
    fn entry(self, values: Option<Value>) -> Value {
        let sorted = |mut list: Vec<Value>| {
            list.sort_by_cached_key(dumps);
            Value::Array(list)
        };
        let mut entry = Map::new();
        entry.insert("custom".to_owned(), sorted(self.custom));
        entry.insert("updates".to_owned(), sorted(self.updates));
        entry.extend(values.map(|values| ("values".to_owned(), values)));
        Value::Object(entry)
    }
}

/// What has happened in a call so far.
struct Record<'a> {
    scenario: &'a Scenario,
    steps: Vec<Value>,
    open: Step,
    interrupts: Vec<Value>,
}

impl Record<'_> {
    fn note(&mut self, event: Event<DynState>) {
        match event {
            Event::Values(state) => {
                let step = std::mem::take(&mut self.open);
                self.steps.push(step.entry(Some(state.to_value())));
            }
            Event::Updates(update) => self.update(&update),
            Event::Custom { value, .. } => self.open.custom.push(value),
            Event::Interrupted(questions) => {
                self.interrupts.extend(questions.into_iter().map(|question| question.value));
            }
            // The other modes were not asked for.
            _ => {}
        }
    }

    fn update(&mut self, update: &NodeUpdate<DynState>) {
        let is_graph = self.scenario.root.nodes.get(&update.node).is_some_and(|node| node.graph.is_some());
        let writes = if is_graph { Value::Null } else { update.update.writes().to_json().unwrap_or_default() };
        self.open.updates.push(json!([update.node, writes]));
        if update.cached {
            self.open.updates.push(json!(["__metadata__", { "cached": true }]));
        }
    }

    fn ended(mut self) -> Value {
        if !self.open.custom.is_empty() || !self.open.updates.is_empty() {
            self.steps.push(self.open.entry(None));
        }
        self.interrupts.sort_by_cached_key(dumps);
        json!({ "steps": self.steps, "interrupts": self.interrupts, "error": null })
    }

    /// How far the siblings of a failed task came is a matter of timing, and left out.
    fn failed(self, error: &RunError) -> Value {
        match error.root() {
            RunError::RecursionLimit { .. } => json!({ "steps": self.steps, "error": { "kind": "recursion_limit" } }),
            RunError::Conflict { .. } => json!({ "steps": self.steps, "error": { "kind": "invalid_update" } }),
            RunError::Node { error, .. } => failed(&self.steps, "node", &error.to_string()),
            other => failed(&self.steps, "run", &other.to_string()),
        }
    }
}

fn failed(steps: &[Value], kind: &str, message: &str) -> Value {
    json!({ "steps": steps, "error": { "kind": kind, "message": message } })
}
