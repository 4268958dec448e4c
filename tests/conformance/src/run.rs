//! Does the calls of a scenario, and writes down what happened in the form in which the reference was recorded.

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

/// What came of a scenario.
pub(crate) enum Answer {
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

/// What a run starts with.
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

/// What a call runs the graph with; none if it is no run.
async fn given(graph: &CompiledGraph<DynState>, call: &Call) -> Result<Option<Given>, String> {
    Ok(Some(match &call.ask {
        Ask::Invoke(Value::Null) => Given::Nothing,
        Ask::Invoke(input) => Given::New(graph.update(input.clone()).map_err(|error| error.to_string())?),
        Ask::Resume(given) => Given::Command(command(graph, call, given).await?),
        Ask::Update(..) | Ask::State | Ask::History => return Ok(None),
    }))
}

/// What a run goes on with.
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

/// An object whose keys are all ids answers by id; anything else is one answer.
fn resume(answer: &Value) -> Command<DynState> {
    let is_id = |key: &String| key.len() == 32 && key.bytes().all(|byte| byte.is_ascii_hexdigit());
    match answer.as_object().filter(|object| object.keys().all(is_id)) {
        Some(object) => Command::answers(object.iter().map(|(id, answer)| (id.clone(), answer.clone()))),
        None => Command::resume(answer),
    }
}

/// The place that a call addresses.
async fn config(graph: &CompiledGraph<DynState>, call: &Call) -> Result<Config, RunError> {
    // The events are taken as they come; the bound only says how far the run may be ahead.
    let mut config = Config::new().thread(&call.thread).recursion_limit(call.recursion_limit).stream_capacity(1 << 24);
    if let Some(durability) = call.durability {
        config = config.durability(durability);
    }
    let Some(number) = call.from else { return Ok(config) };
    let snapshots = graph.history(config.clone(), ListQuery::default()).await?;
    let id = snapshots.get(number).and_then(|snapshot| snapshot.checkpoint);
    id.map(|id| config.checkpoint(id)).ok_or_else(|| RunError::Config(format!("the history has no item {number}")))
}

/// Does a call and writes down what happened and how it ended.
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

/// Runs the graph and writes down its events and how it ended.
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

/// Does a call without listening and writes down how it ended.
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

/// Reads or changes what is stored.
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

/// A snapshot in the form of the recorded ones.
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

/// How a run ended.
fn end(outcome: &Result<Outcome<DynState>, RunError>) -> Value {
    match outcome {
        Ok(outcome) => json!({ "finished": outcome.is_finished(), "state": outcome.state().to_value() }),
        // Its message has the ids of the open questions, which each series of calls has its own of.
        Err(error) if matches!(error.root(), RunError::Answer { .. }) => json!({ "error": "answer" }),
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
pub(crate) struct Record<'a> {
    scenario: &'a Scenario,
    steps: Vec<Value>,
    open: Step,
    interrupts: Vec<Value>,
}

impl<'a> Record<'a> {
    /// Nothing has happened yet.
    pub(crate) fn new(scenario: &'a Scenario) -> Self {
        Self { scenario, steps: Vec::new(), open: Step::default(), interrupts: Vec::new() }
    }

    /// The steps so far.
    pub(crate) fn steps(&self) -> &[Value] {
        &self.steps
    }

    /// Notes an event that was told as JSON.
    pub(crate) fn note_told(&mut self, event: &NewEvent) {
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
            // The other modes were not asked for.
            _ => {}
        }
    }

    /// The run ended with an error that has no message of its own.
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
            // The other modes were not asked for.
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

    /// How far the siblings of a failed task came is a matter of timing, and left out.
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
