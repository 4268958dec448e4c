//! Runs the calls of a scenario and records the events in the format of the LangGraph recordings.

use hier_core::checkpoint::{ListQuery, MemorySaver};
use hier_core::graph::{Command, CompiledGraph, FullState, GraphInput, Input};
use hier_core::runs::{LogEvent, NewEvent};
use hier_core::state::{DynState, DynUpdate, Update};
use hier_core::{Config, Event, NodeUpdate, Outcome, RunError, StateSnapshot, StateUpdate, StreamMode};
use serde_json::{Map, Value, json};

use super::build::build;
use super::node::go;
use super::python::dumps;
use super::scenario::{self, Ask, Call, Scenario, Target};

/// The result of a scenario.
pub(crate) enum Answer {
    /// The reason for which the graph was refused.
    Refused(String),
    /// The results of the calls.
    Calls(Calls),
}

/// The results of the calls, one item per call in each list.
#[derive(Default)]
pub(crate) struct Calls {
    /// The events, in the format of the recordings.
    pub(crate) events: Vec<Value>,
    /// The ends of the streamed calls.
    pub(crate) ends: Vec<Value>,
    /// The ends of the calls without a stream. These runs take a shorter code path, which must lead to the same end.
    pub(crate) quiet_ends: Vec<Value>,
}

/// Builds the graph and runs the calls. Fails if the Tokio runtime cannot be started.
pub(crate) fn run(scenario: &Scenario) -> Result<Answer, String> {
    // Nodes count their attempts over all calls, so each series of calls needs its own graph.
    let (graph, quiet) = match build(scenario).and_then(|graph| Ok((graph, build(scenario)?))) {
        Ok(graphs) => graphs,
        Err(error) => return Ok(Answer::Refused(error.to_string())),
    };
    let with_saver = |graph: CompiledGraph<DynState>| {
        if scenario.settings.checkpointer { graph.checkpointer(MemorySaver::default()) } else { graph }
    };
    let (graph, quiet) = (with_saver(graph), with_saver(quiet));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
    let runtime = runtime.map_err(|error| format!("cannot be run, because there is no runtime: {error}"))?;
    let mut calls = Calls::default();
    for call in &scenario.settings.calls {
        let (events, end) = runtime.block_on(listened(scenario, &graph, call));
        calls.events.push(events);
        calls.ends.push(end);
        calls.quiet_ends.push(runtime.block_on(quietly(&quiet, call)));
    }
    Ok(Answer::Calls(calls))
}

/// The input of a run.
enum Given {
    New(DynUpdate),
    Nothing,
    Command(Command<DynState>),
}

impl GraphInput<DynState, FullState> for Given {
    fn into_input(self) -> Input<DynState> {
        match self {
            Self::New(update) => GraphInput::<DynState, FullState>::into_input(update),
            Self::Nothing => GraphInput::<DynState, FullState>::into_input(()),
            Self::Command(command) => GraphInput::<DynState, FullState>::into_input(command),
        }
    }
}

/// Returns the input of a call, or `None` if the call does not run the graph.
async fn given(graph: &CompiledGraph<DynState>, call: &Call) -> Result<Option<Given>, String> {
    Ok(Some(match &call.ask {
        Ask::Invoke(Value::Null) => Given::Nothing,
        Ask::Invoke(input) => Given::New(graph.update(input.clone()).map_err(|error| error.to_string())?),
        Ask::Resume(given) => Given::Command(command(graph, call, given).await?),
        Ask::Update(..) | Ask::State | Ask::History => return Ok(None),
    }))
}

/// Builds the command that resumes a run.
async fn command(
    graph: &CompiledGraph<DynState>,
    call: &Call,
    given: &scenario::Given,
) -> Result<Command<DynState>, String> {
    let mut command = match &given.answer {
        None => Command::new(),
        Some(scenario::Answer::One(answer)) => resume(answer),
        Some(scenario::Answer::ByText(answers)) => {
            let config = config(graph, call).await.map_err(|error| error.to_string())?;
            let questions = graph.state(config).await.map_err(|error| error.to_string())?.questions;
            let open = |asked: &Value| questions.iter().find(|question| question.value == *asked);
            Command::answers(answers.iter().filter_map(|(asked, answer)| Some((open(asked)?.id.clone(), answer))))
        }
    };
    if let Some(update) = &given.update {
        command = command.with_update(graph.update(Value::Object(update.clone())).map_err(|error| error.to_string())?);
    }
    Ok(given.goto.iter().fold(command, |command, target| match target {
        Target::Node(node) => go(command, node),
        Target::Send(send) => command.send(send.to.as_str(), send.input.clone()),
    }))
}

/// Builds the command for an answer. An object whose keys are all IDs answers by ID; any other value is one answer.
fn resume(answer: &Value) -> Command<DynState> {
    let is_id = |key: &String| key.len() == 32 && key.bytes().all(|byte| byte.is_ascii_hexdigit());
    match answer.as_object().filter(|object| object.keys().all(is_id)) {
        Some(object) => Command::answers(object.iter().map(|(id, answer)| (id.clone(), answer.clone()))),
        None => Command::resume(answer),
    }
}

/// Builds the config of a call, which addresses a thread and optionally a checkpoint.
async fn config(graph: &CompiledGraph<DynState>, call: &Call) -> Result<Config, RunError> {
    // Events are consumed as they arrive; the capacity only limits how far the run can be ahead.
    let mut config = Config::new().thread(&call.thread).recursion_limit(call.recursion_limit).stream_capacity(1 << 24);
    if let Some(durability) = call.durability {
        config = config.durability(durability);
    }
    let Some(number) = call.from else { return Ok(config) };
    let snapshots = graph.history(config.clone(), ListQuery::default()).await?;
    let id = snapshots.get(number).and_then(|snapshot| snapshot.checkpoint);
    id.map(|id| config.checkpoint(id)).ok_or_else(|| RunError::Config(format!("the history has no item {number}")))
}

/// Runs a call with a stream and returns its recorded events and its end.
async fn listened(scenario: &Scenario, graph: &CompiledGraph<DynState>, call: &Call) -> (Value, Value) {
    let config = match config(graph, call).await {
        Ok(config) => config,
        Err(error) => return (failed(&[], "run", &error.to_string()), Value::from(error.to_string())),
    };
    match given(graph, call).await {
        Ok(Some(given)) => stream(scenario, graph, given, config).await,
        Ok(None) => {
            let answer = saved(graph, call, config).await;
            (answer.clone(), answer)
        }
        Err(error) => (failed(&[], "input", &error), Value::from(error)),
    }
}

/// Streams a run of the graph and returns its recorded events and its end.
async fn stream(scenario: &Scenario, graph: &CompiledGraph<DynState>, given: Given, config: Config) -> (Value, Value) {
    let modes = [StreamMode::Values, StreamMode::Updates, StreamMode::Custom];
    let mut events = graph.stream(given).config(config).modes(modes);
    let mut record = Record::new(scenario);
    while let Some(event) = events.next().await {
        match event {
            Ok(event) => record.note(event),
            Err(error) => return (record.failed(&error), end(&Err(error))),
        }
    }
    (record.ended(), end(&events.outcome().await))
}

/// Runs a call without a stream and returns its end.
async fn quietly(graph: &CompiledGraph<DynState>, call: &Call) -> Value {
    let config = match config(graph, call).await {
        Ok(config) => config,
        Err(error) => return Value::from(error.to_string()),
    };
    match given(graph, call).await {
        Ok(Some(given)) => end(&graph.invoke(given).config(config).await),
        Ok(None) => saved(graph, call, config).await,
        Err(error) => Value::from(error),
    }
}

/// Reads or updates the stored state.
async fn saved(graph: &CompiledGraph<DynState>, call: &Call, config: Config) -> Value {
    let answer = match &call.ask {
        Ask::Update(object, node) => match graph.update(Value::Object(object.clone())) {
            Ok(update) => {
                let update = StateUpdate::update(update);
                let update = match node {
                    Some(node) => update.as_node(node),
                    None => update,
                };
                graph.update_state(config, update).await.map(|_| json!({ "error": null }))
            }
            Err(error) => return failed(&[], "input", &error.to_string()),
        },
        Ask::History => {
            let snapshots = graph.history(config, ListQuery::default()).await;
            snapshots.map(|list| json!({ "history": list.iter().map(snapshot).collect::<Vec<_>>() }))
        }
        _ => graph.state(config).await.map(|state| snapshot(&state)),
    };
    answer.unwrap_or_else(|error| match error.root() {
        RunError::Conflict { .. } | RunError::Update { .. } => json!({ "error": { "kind": "invalid_update" } }),
        error => json!({ "error": { "kind": "run", "message": error.to_string() } }),
    })
}

/// Converts a snapshot into the format of the recordings.
fn snapshot(state: &StateSnapshot<DynState>) -> Value {
    let mut next = state.next.clone();
    next.sort();
    let mut interrupts: Vec<Value> = state.questions.iter().map(|question| question.value.clone()).collect();
    interrupts.sort_by_cached_key(dumps);
    json!({
        "values": state.values.to_value(),
        "next": next,
        "step": state.checkpoint.map(|_| state.step),
        "source": state.source,
        "interrupts": interrupts,
    })
}

/// Returns the end of a run: its final state or its error.
fn end(outcome: &Result<Outcome<DynState>, RunError>) -> Value {
    match outcome {
        Ok(outcome) => json!({ "finished": outcome.is_finished(), "state": outcome.state().to_value() }),
        // The message contains the IDs of the open questions, which differ between the two series of calls.
        Err(error) if matches!(error.root(), RunError::Answer { .. }) => json!({ "error": "answer" }),
        Err(error) => json!({ "error": error.to_string() }),
    }
}

/// The events since the last `values` event.
#[derive(Default)]
struct Step {
    custom: Vec<Value>,
    updates: Vec<Value>,
}

impl Step {
    /// Returns the entry of the step. Events whose order can vary are sorted by their text.
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

/// The recorded events of a call.
pub(crate) struct Record<'a> {
    scenario: &'a Scenario,
    steps: Vec<Value>,
    open: Step,
    interrupts: Vec<Value>,
}

impl<'a> Record<'a> {
    /// Creates an empty record.
    pub(crate) fn new(scenario: &'a Scenario) -> Self {
        Self { scenario, steps: Vec::new(), open: Step::default(), interrupts: Vec::new() }
    }

    /// Returns the steps recorded so far.
    pub(crate) fn steps(&self) -> &[Value] {
        &self.steps
    }

    /// Records an event from a run's event log.
    pub(crate) fn note_event(&mut self, event: &NewEvent) {
        match &event.body {
            LogEvent::Values(values) => {
                let step = std::mem::take(&mut self.open);
                self.steps.push(step.entry(Some(values.clone())));
            }
            LogEvent::Custom { value, .. } => self.open.custom.push(value.clone()),
            LogEvent::Updates(update) => self.update_of(&update.node, update.writes.clone(), update.cached),
            LogEvent::Interrupted(questions) => {
                self.interrupts.extend(questions.iter().map(|question| question.value.clone()));
            }
            // Other modes were not requested.
            _ => {}
        }
    }

    /// Returns the record of a run that ended with an error whose message is not compared.
    pub(crate) fn stopped(&self, kind: &str) -> Value {
        json!({ "steps": self.steps, "error": { "kind": kind } })
    }

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
            // Other modes were not requested.
            _ => {}
        }
    }

    fn update(&mut self, update: &NodeUpdate<DynState>) {
        self.update_of(&update.node, update.update.writes().to_json().unwrap_or_default(), update.cached);
    }

    fn update_of(&mut self, node: &str, writes: Value, cached: bool) {
        let is_graph = self.scenario.root.nodes.get(node).is_some_and(|node| node.graph.is_some());
        let writes = if is_graph { Value::Null } else { writes };
        self.open.updates.push(json!([node, writes]));
        if cached {
            self.open.updates.push(json!(["__metadata__", { "cached": true }]));
        }
    }

    pub(crate) fn ended(mut self) -> Value {
        if !self.open.custom.is_empty() || !self.open.updates.is_empty() {
            self.steps.push(self.open.entry(None));
        }
        self.interrupts.sort_by_cached_key(dumps);
        json!({ "steps": self.steps, "interrupts": self.interrupts, "error": null })
    }

    /// Returns the record of a failed run. It omits the open step, since the progress of the failed task's siblings depends on timing.
    fn failed(self, error: &RunError) -> Value {
        match error.root() {
            RunError::RecursionLimit { .. } => json!({ "steps": self.steps, "error": { "kind": "recursion_limit" } }),
            RunError::Conflict { .. } => json!({ "steps": self.steps, "error": { "kind": "invalid_update" } }),
            RunError::Node { error, .. } => failed(&self.steps, "node", &error.to_string()),
            RunError::Answer { .. } => json!({ "steps": self.steps, "error": { "kind": "answer" } }),
            other => failed(&self.steps, "run", &other.to_string()),
        }
    }
}

pub(crate) fn failed(steps: &[Value], kind: &str, message: &str) -> Value {
    json!({ "steps": steps, "error": { "kind": kind, "message": message } })
}
