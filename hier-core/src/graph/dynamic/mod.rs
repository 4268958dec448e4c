//! Graphs of any state behind one type, with JSON inputs and outputs. Servers and workers use them.

mod erased;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::SystemTime;

use async_trait::async_trait;
use hier_spec::GraphSpec;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use uuid::Uuid;

pub use erased::Erased;

use crate::checkpoint::{Checkpointer, ListQuery};
pub use crate::command::DynCommand;
use crate::config::Config;
use crate::engine::program::SecretChannel;
pub use crate::engine::program::{DynInput, DynSnapshot, DynTask, DynUpdates};
use crate::engine::{Outcome, StreamMode};
use crate::error::RunError;
use crate::question::Question;
use crate::runs::NewEvent;
use crate::store::Store;

/// A function that receives the events of a run. It must not block.
pub type DynEventSink = Arc<dyn Fn(NewEvent) + Send + Sync>;

/// The description of a compiled graph of any type. Servers use it to list graphs and to validate requests.
pub trait DynGraphInfo: Send + Sync + 'static {
    /// Returns the name, nodes and edges of the graph as data.
    fn spec(&self) -> &GraphSpec;

    /// Returns the JSON Schemas of the graph's types.
    fn schemas(&self) -> &GraphSchemas;

    /// Returns the JSON Schema of the graph's state. If `nodes` is not empty, returns the schema of the subgraph at
    /// this path of nodes. Returns `None` if the schema is not known or the subgraph does not exist.
    fn state_schema(&self, nodes: &[String]) -> Option<Value> {
        if nodes.is_empty() { self.schemas().state.clone() } else { None }
    }

    /// Checks an answer to the declared question with this name. If the graph declares no question with this name,
    /// accepts any answer.
    ///
    /// # Errors
    ///
    /// Fails if the answer does not have the type of the question. The error describes the difference.
    fn check_answer(&self, question: &str, answer: &Value) -> Result<(), String> {
        let _ = (question, answer);
        Ok(())
    }

    /// Checks an input without running the graph.
    ///
    /// # Errors
    ///
    /// Fails for unknown channels and nodes, and for values of the wrong type.
    fn check(&self, input: &DynInput) -> Result<(), RunError>;

    /// Returns the graph names under which savers store the threads of the graph and of its detached subagents. These
    /// are the current and earlier names of the graph, and the names of the subagents.
    fn names(&self) -> Vec<String> {
        vec![self.spec().name.to_string()]
    }

    /// Returns the secret channels of this graph and its subgraphs. A graph with secret channels needs a saver that
    /// [protects values](crate::checkpoint::Capabilities::protects_values).
    fn secret_channels(&self) -> Vec<SecretChannel> {
        Vec::new()
    }

    /// Returns the name of the channel that receives messages from outside. Returns `None` if the graph has no `inbox`.
    fn inbox(&self) -> Option<&str> {
        None
    }
}

/// A compiled graph whose state and context are not known at compile time.
/// [`CompiledGraph::erase`](super::CompiledGraph::erase) creates one. The trait is object-safe.
#[async_trait]
pub trait DynGraph: DynGraphInfo {
    /// Runs the graph like [`invoke`](super::CompiledGraph::invoke). The returned state is an object of channels.
    /// Dropping the future cancels the run, unless [`runs_elsewhere`](Self::runs_elsewhere) returns true.
    async fn run(&self, run: DynRun) -> Result<Outcome<Value>, RunError>;

    /// Returns the state of a thread, like [`CompiledGraph::state`](super::CompiledGraph::state). If the configuration
    /// has the namespace of a subgraph, returns the state of the subgraph. [`DynTask::state`] contains such a
    /// configuration.
    ///
    /// # Errors
    ///
    /// Fails for an unknown namespace.
    async fn state(&self, saver: Arc<dyn Checkpointer>, config: Config) -> Result<DynSnapshot, RunError>;

    /// Returns the states of a thread or a subgraph, newest first.
    async fn history(
        &self,
        saver: Arc<dyn Checkpointer>,
        config: Config,
        query: ListQuery,
    ) -> Result<Vec<DynSnapshot>, RunError>;

    /// Updates the state of a thread from outside its runs, with one superstep for each list of updates. Returns the
    /// configuration that selects the checkpoint of the last superstep.
    ///
    /// If the configuration has the namespace of a subgraph, updates the subgraph and withdraws its open questions.
    ///
    /// # Errors
    ///
    /// Fails for a subgraph without checkpoints.
    async fn update_state(
        &self,
        saver: Arc<dyn Checkpointer>,
        config: Config,
        supersteps: Vec<Vec<DynUpdates>>,
    ) -> Result<Config, RunError>;

    /// Returns the thread ids of the [detached](super::CompiledGraph::continue_detached) subagents that the agent on
    /// `thread` has started. Leaves out the subagents whose reports the agent has already collected.
    async fn detached(&self, saver: Arc<dyn Checkpointer>, thread: &str) -> Result<Vec<String>, RunError> {
        let _ = (saver, thread);
        Ok(Vec::new())
    }

    /// Continues a detached subagent. The configuration of the run contains the subagent's thread. The method ignores
    /// the input of the run. The agent that started the subagent reads the report later, so the returned state only
    /// describes how the subagent ended.
    ///
    /// # Errors
    ///
    /// Fails with [`RunError::Config`] if the thread does not belong to a background subagent, or if the graph cannot
    /// have detached subagents.
    async fn continue_detached(&self, run: DynRun) -> Result<Outcome<Value>, RunError> {
        let _ = run;
        Err(RunError::Config(format!(
            "graph `{}` does not support detached subagents in this program",
            self.spec().name
        )))
    }

    /// Returns true if runs are executed outside this process, for example on a cluster, and continue there when this
    /// process ends. For such a graph, dropping the future does not cancel the run. A second call of `run` with the
    /// same input and run id waits for the first run and returns its outcome.
    fn runs_elsewhere(&self) -> bool {
        false
    }

    /// Deletes the data of a thread that the graph keeps outside the saver. Delete the thread in the saver before this
    /// call.
    async fn forget(&self, thread: &str) -> Result<(), RunError> {
        let _ = thread;
        Ok(())
    }

    /// Sends a message or a signal to a thread, like [`CompiledGraph::send`](super::CompiledGraph::send). Returns false
    /// if an earlier message to the thread had the same id.
    async fn send(
        &self,
        saver: Arc<dyn Checkpointer>,
        thread: &str,
        id: Uuid,
        signal: Option<&str>,
        value: &Value,
    ) -> Result<bool, RunError> {
        let _ = (saver, thread, id, signal, value);
        Err(RunError::Send {
            graph: self.spec().name.to_string(),
            reason: "the graph accepts no messages and no signals".to_owned(),
        })
    }

    /// Returns true if a thread can be resumed at the time `now`. Call this method for a thread that
    /// [`Inbox::due`](crate::checkpoint::Inbox::due) has returned. The method also changes the time at which `due`
    /// returns the thread again:
    ///
    /// * If the thread cannot be resumed, `due` returns it when its next timer is due or its signal arrives.
    /// * If the thread can be resumed and `again` is set, `due` returns it after the time `again`.
    async fn is_due(
        &self,
        saver: Arc<dyn Checkpointer>,
        thread: &str,
        now: SystemTime,
        again: Option<SystemTime>,
    ) -> Result<bool, RunError> {
        let _ = (saver, thread, now, again);
        Ok(false)
    }
}

/// A system outside this process that runs graphs, such as a cluster. `hier-server` accepts a runner, and
/// `hier-restate` implements one.
pub trait Runner: Send + Sync + 'static {
    /// Wraps `graph` in a graph whose runs this system executes. `name` is the name under which the system knows the
    /// graph.
    fn graph(&self, name: &str, graph: Arc<dyn DynGraph>) -> Arc<dyn DynGraph>;
}

/// The JSON Schemas of a graph's types. A schema that is not known is `None`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct GraphSchemas {
    /// The schema of a run's input.
    pub input: Option<Value>,
    /// The schema of a run's output.
    pub output: Option<Value>,
    /// The schema of the state: an object of channels.
    pub state: Option<Value>,
    /// The schema of the value from which the graph creates the context of a run.
    pub context: Option<Value>,
    /// The schema of `config.configurable` in a request.
    pub config: Option<Value>,
    /// The declared questions of the graph and its subgraphs, by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub questions: BTreeMap<String, QuestionSchemas>,
}

/// The JSON Schemas of a declared question.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct QuestionSchemas {
    /// The schema of the question. A question is an object. Its field `type` is `tool` for a client tool, and otherwise
    /// the name of the question.
    pub question: Value,
    /// The schema of the answer.
    pub answer: Value,
}

/// The values of a request from which a graph creates the context of a run.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct RunContext {
    /// The context in the request, or null.
    pub context: Value,
    /// The value of `config.configurable` in the request.
    pub configurable: Map<String, Value>,
    /// The id of the run's thread. `None` for a run without a thread.
    pub thread: Option<String>,
}

impl RunContext {
    /// Creates the values for a run with this context.
    pub fn new(context: Value) -> Self {
        Self { context, ..Self::default() }
    }
}

/// A run of a [`DynGraph`] that has not started.
#[derive(Clone)]
#[non_exhaustive]
pub struct DynRun {
    /// The input of the run.
    pub input: DynInput,
    /// The options of the run.
    pub config: Config,
    /// The values from which the graph creates its context.
    pub context: RunContext,
    /// The saver that stores checkpoints. `None` selects the checkpointer of the graph. If the graph has no
    /// checkpointer either, the run is not durable.
    pub saver: Option<Arc<dyn Checkpointer>>,
    /// The store, which all threads share. `None` selects the store of the graph.
    pub store: Option<Arc<dyn Store>>,
    /// The kinds of events that `event_sink` receives.
    pub modes: Vec<StreamMode>,
    /// The function that receives the events. `None` if no events are needed.
    pub event_sink: Option<DynEventSink>,
}

impl DynRun {
    /// Creates a run with this input.
    pub fn new(input: DynInput, config: Config) -> Self {
        let (context, saver, store, modes, event_sink) = (RunContext::default(), None, None, Vec::new(), None);
        Self { input, config, context, saver, store, modes, event_sink }
    }
}

impl std::fmt::Debug for DynRun {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // The input is left out, because it may contain the value of a secret channel.
        f.debug_struct("DynRun").field("config", &self.config).finish_non_exhaustive()
    }
}

/// Returns the open questions in the form that the server's index of threads stores. The keys are the ids of the root
/// graph's tasks. The values are lists of `{"id": …, "value": …}`, and declared questions also have a `name`.
pub fn interrupts(questions: &[Question]) -> Map<String, Value> {
    let mut tasks = Map::new();
    for question in questions {
        let Some(task) = question.root_task() else { continue };
        let asked = tasks.entry(task).or_insert_with(|| Value::Array(Vec::new()));
        if let Value::Array(asked) = asked {
            let mut entry = serde_json::json!({ "id": question.id, "value": question.value });
            if let Some(name) = &question.name {
                entry["name"] = Value::String(name.clone());
            }
            asked.push(entry);
        }
    }
    tasks
}
