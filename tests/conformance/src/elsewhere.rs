//! Runs the scenarios outside this process's engine, for example on a cluster.

use std::io;
use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;

use hier_core::async_trait;
use hier_core::graph::{DynCommand, DynGraph, DynInput, DynUpdates};
use hier_core::runs::NewEvent;
use hier_core::{Config, Outcome, Question, RunError};
use serde_json::{Map, Value, json};

use super::build::build;
use super::files::{File, Kind, Trouble, find, read};
use super::hierarchy::Hierarchy;
use super::python::dumps;
use super::report::{self, Report, Totals, Verdict};
use super::run::{Calls, Record, failed};
use super::scenario::{Answer, Ask, Call, Given, Scenario, Target};
use super::{compare, hierarchy_build, hierarchy_run};
use hier_testkit::ScriptedModel;

/// Runs graphs outside this process. All values are JSON.
#[async_trait]
pub trait Elsewhere: Send + Sync {
    /// Registers a graph and returns the prefix that its thread IDs must have.
    async fn put(&self, graph: Arc<dyn DynGraph>) -> String;

    /// Runs the graph of the thread. If `listened` is true, also returns its `values`, `updates` and `custom` events.
    async fn run(
        &self,
        input: DynInput,
        config: Config,
        listened: bool,
    ) -> (Vec<NewEvent>, Result<Outcome<Value>, ElsewhereError>);

    /// Returns the state of a thread.
    async fn state(&self, config: Config) -> Result<ElsewhereState, ElsewhereError>;

    /// Returns the history of a thread, newest first.
    async fn history(&self, config: Config) -> Result<Vec<ElsewhereState>, ElsewhereError>;

    /// Updates the state of a thread.
    async fn update_state(&self, config: Config, update: DynUpdates) -> Result<(), ElsewhereError>;
}

/// A snapshot of a thread.
#[derive(Clone, Debug)]
pub struct ElsewhereState {
    /// The channels.
    pub values: Value,
    /// The nodes that run next.
    pub next: Vec<String>,
    /// The ID of the checkpoint, or `None` if nothing is stored.
    pub checkpoint: Option<uuid::Uuid>,
    /// The number of the superstep.
    pub step: i64,
    /// The operation that created the checkpoint.
    pub source: Option<hier_core::checkpoint::Source>,
    /// The open questions.
    pub questions: Vec<Question>,
}

/// An error of a run, or of another operation, outside this process.
#[derive(Clone, Debug)]
pub struct ElsewhereError {
    /// The name of the error: `GraphRecursionError`, `InvalidUpdateError`, `NodeError`, …
    pub kind: String,
    /// The whole message.
    pub message: String,
    /// The message of the innermost error.
    pub cause: String,
    /// The result of [`describe`], called where the error occurred.
    pub details: Value,
}

/// Describes an error for [`ElsewhereError::details`], so that it can be compared. Call it where the error occurs.
pub fn describe(error: &RunError) -> Value {
    hierarchy_run::failure(error)
}

/// Runs all scenarios in these files and folders at `place`. Writes one line per scenario to `out`, and problems with files to `err`.
///
/// # Errors
///
/// Returns an error if the report cannot be written.
pub async fn run_elsewhere(
    paths: &[PathBuf],
    place: &dyn Elsewhere,
    out: &mut (dyn Write + Send),
    err: &mut (dyn Write + Send),
) -> io::Result<Totals> {
    let mut lines = Vec::new();
    for path in paths {
        match find(path) {
            Ok(files) => {
                for file in files {
                    lines.push(match read(&file) {
                        Ok(file) => Ok((judge(&file, place).await, file.name)),
                        Err(trouble) => Err(trouble),
                    });
                }
            }
            Err(trouble) => lines.push(Err(trouble)),
        }
    }
    let mut report = Report::new(out, err);
    for line in lines {
        match line {
            Ok((Ok(verdict), name)) => report.line(&name, &verdict)?,
            Ok((Err(trouble), _)) | Err(trouble) => report.bad(&trouble)?,
        }
    }
    report.end()
}

async fn judge(file: &File, place: &dyn Elsewhere) -> Result<Verdict, Trouble> {
    match &file.kind {
        Kind::Graph(scenario) => Ok(report::of(match calls(scenario, place).await {
            Ok(calls) => compare::calls(&file.expect, calls),
            Err(message) => compare::refused(&file.expect, &message),
        })),
        Kind::Hierarchy(scenario) => {
            let answers = hierarchy(scenario, place).await.map_err(|text| Trouble::new(&file.path, text))?;
            // The subagent stack is not stored, so its depth is not visible outside the process of the run.
            let mut expect = file.expect.clone();
            if let Some(Value::Object(last)) = expect.get_mut("final") {
                last.remove("stack_depth");
            }
            Ok(report::of(compare::answers(&expect, &answers)))
        }
    }
}

/// Runs the calls. The error is the reason for which the graph was refused.
async fn calls(scenario: &Scenario, place: &dyn Elsewhere) -> Result<Calls, String> {
    let erased = || build(scenario).map(|graph| graph.erase(|_| Ok(()))).map_err(|error| error.to_string());
    let (graph, quiet) = (place.put(Arc::new(erased()?)).await, place.put(Arc::new(erased()?)).await);
    let mut calls = Calls::default();
    for (number, call) in scenario.settings.calls.iter().enumerate() {
        // Without a saver, nothing is kept between calls, so each call gets its own thread.
        let thread = |prefix: &str| {
            if scenario.settings.checkpointer {
                format!("{prefix}{}", call.thread)
            } else {
                format!("{prefix}{number}")
            }
        };
        let (events, end) = one(scenario, place, &thread(&graph), call, true).await;
        calls.events.push(events);
        calls.ends.push(end);
        calls.quiet_ends.push(one(scenario, place, &thread(&quiet), call, false).await.1);
    }
    Ok(calls)
}

/// Runs a call and returns its recorded events and its end.
async fn one(scenario: &Scenario, place: &dyn Elsewhere, thread: &str, call: &Call, listened: bool) -> (Value, Value) {
    let config = match config(place, thread, call).await {
        Ok(config) => config,
        Err(error) => return (failed(&[], "run", &error), Value::from(error)),
    };
    let input = match &call.ask {
        Ask::Invoke(Value::Null) => DynInput::Continue,
        Ask::Invoke(input) => DynInput::New(input.clone()),
        Ask::Resume(given) => match command(place, config.clone(), given).await {
            Ok(command) => DynInput::Command(command),
            Err(error) => return (failed(&[], "run", &error), Value::from(error)),
        },
        Ask::Update(..) | Ask::State | Ask::History => {
            let answer = saved(place, config, &call.ask).await;
            return (answer.clone(), answer);
        }
    };
    let (events, ended) = place.run(input, config, listened).await;
    let mut record = Record::new(scenario);
    for event in &events {
        record.note_event(event);
    }
    match ended {
        Ok(outcome) => {
            let end = json!({ "finished": outcome.is_finished(), "state": outcome.state() });
            (record.ended(), end)
        }
        Err(error) => {
            let end = json!({ "error": error.message });
            let happened = match error.kind.as_str() {
                "GraphRecursionError" => record.stopped("recursion_limit"),
                "InvalidUpdateError" => record.stopped("invalid_update"),
                "AnswerError" => record.stopped("answer"),
                "NodeError" => failed(record.steps(), "node", &error.cause),
                _ => failed(record.steps(), "run", &error.cause),
            };
            (happened, end)
        }
    }
}

/// Builds the command that resumes a run.
async fn command(place: &dyn Elsewhere, config: Config, given: &Given) -> Result<DynCommand, String> {
    let mut command = DynCommand::default();
    command.resume = match &given.answer {
        None => None,
        Some(Answer::One(answer)) => Some(answer.clone()),
        Some(Answer::ByText(answers)) => {
            let questions = place.state(config).await.map_err(|error| error.message)?.questions;
            let open = |asked: &Value| questions.iter().find(|question| question.value == *asked);
            let by_id = |(asked, answer): &(Value, Value)| Some((open(asked)?.id.clone(), answer.clone()));
            Some(Value::Object(answers.iter().filter_map(by_id).collect()))
        }
    };
    command.update = given.update.clone().map_or(Value::Null, Value::Object);
    let target = |target: &Target| match target {
        Target::Node(node) => (node.clone(), None),
        Target::Send(send) => (send.to.clone(), Some(send.input.clone())),
    };
    command.goto = given.goto.iter().map(target).collect();
    Ok(command)
}

async fn config(place: &dyn Elsewhere, thread: &str, call: &Call) -> Result<Config, String> {
    let mut config = Config::new().thread(thread).recursion_limit(call.recursion_limit);
    if let Some(durability) = call.durability {
        config = config.durability(durability);
    }
    let Some(number) = call.from else { return Ok(config) };
    let states = place.history(config.clone()).await.map_err(|error| error.message)?;
    let id = states.get(number).and_then(|state| state.checkpoint);
    id.map(|id| config.checkpoint(id)).ok_or_else(|| format!("the history has no item {number}"))
}

async fn saved(place: &dyn Elsewhere, config: Config, ask: &Ask) -> Value {
    let answer = match ask {
        Ask::Update(object, node) => {
            let update = DynUpdates::values(Value::Object(object.clone()));
            let update = match node {
                Some(node) => update.as_node(node),
                None => update,
            };
            place.update_state(config, update).await.map(|()| json!({ "error": null }))
        }
        Ask::History => {
            let states = place.history(config).await;
            states.map(|list| json!({ "history": list.iter().map(snapshot).collect::<Vec<_>>() }))
        }
        _ => place.state(config).await.map(|state| snapshot(&state)),
    };
    answer.unwrap_or_else(|error| match error.kind.as_str() {
        "InvalidUpdateError" => json!({ "error": { "kind": "invalid_update" } }),
        _ => json!({ "error": { "kind": "run", "message": error.cause } }),
    })
}

fn snapshot(state: &ElsewhereState) -> Value {
    let mut next = state.next.clone();
    next.sort();
    let mut interrupts: Vec<Value> = state.questions.iter().map(|question| question.value.clone()).collect();
    interrupts.sort_by_cached_key(dumps);
    json!({
        "values": state.values,
        "next": next,
        "step": state.checkpoint.map(|_| state.step),
        "source": state.source,
        "interrupts": interrupts,
    })
}

/// Runs a hierarchy twice: invoked and streamed.
async fn hierarchy(scenario: &Hierarchy, place: &dyn Elsewhere) -> Result<hierarchy_run::Answers, String> {
    Ok(hierarchy_run::Answers {
        alone: answer(scenario, place, false).await?,
        streamed: answer(scenario, place, true).await?,
    })
}

async fn answer(scenario: &Hierarchy, place: &dyn Elsewhere, listened: bool) -> Result<Value, String> {
    let (graph, _) = hierarchy_build::build(scenario).map_err(|error| error.to_string())?;
    let model = ScriptedModel::new(scenario.script.iter().map(hierarchy_run::reply));
    let context = model.clone();
    let erased = graph.erase(move |_| Ok(hier_agents::BaseContext::new(context.clone())));
    let prefix = place.put(Arc::new(erased)).await;
    let config = Config::new().thread(prefix).recursion_limit(scenario.recursion_limit);
    let (_, ended) = place.run(DynInput::New(Value::Object(scenario.input.clone())), config, listened).await;
    let prompts: Vec<Value> = model.requests().iter().map(hierarchy_run::prompt).collect();
    let (last, error) = match ended {
        Ok(outcome) => (last(scenario, outcome.state()), Value::Null),
        Err(error) => (Value::Null, error.details),
    };
    Ok(json!({"prompts": prompts, "final": last, "error": error, "script_left": model.remaining()}))
}

/// Returns the compared part of the final state.
fn last(scenario: &Hierarchy, state: &Value) -> Value {
    let own = ["current_agent_report", "is_finished", "todo_list"].into_iter();
    let names = own.chain(scenario.channels.keys().map(String::as_str));
    let field = |name: &str| (name.to_owned(), state.get(name).cloned().unwrap_or_default());
    Value::Object(names.map(field).collect::<Map<_, _>>())
}
