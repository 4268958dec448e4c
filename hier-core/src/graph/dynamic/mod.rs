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
use crate::config::Config;
use crate::engine::program::SecretChannel;
pub use crate::engine::program::{DynCommand, DynInput, DynSnapshot, DynTask, DynUpdates};
use crate::engine::{Outcome, StreamMode};
use crate::error::RunError;
use crate::question::Question;
use crate::runs::NewEvent;
use crate::store::Store;

/// A function that receives the events of a run. It must not block.
pub type DynEventSink = Arc<dyn Fn(NewEvent) + Send + Sync>;

/// Describes a compiled graph of any state and context, and checks values for it.
pub trait DynGraphInfo: Send + Sync + 'static {
    /// Returns the graph as data: its name, nodes and edges.
    fn spec(&self) -> &GraphSpec;

    /// Returns the schemas of its types.
    fn schemas(&self) -> &GraphSchemas;

    /// Returns the JSON Schema of the state of this graph, or of the inner graph that these nodes lead to. Returns none if it is unknown,
    /// or if no such graph exists.
    fn state_schema(&self, nodes: &[String]) -> Option<Value> {
        if nodes.is_empty() { self.schemas().state.clone() } else { None }
    }

    /// Checks an answer to the declared question of this name. Accepts every answer to questions that it does not know.
    ///
    /// # Errors
    ///
    /// Describes the difference between the value and the type of the answer.
    fn check_answer(&self, question: &str, answer: &Value) -> Result<(), String> {
        let _ = (question, answer);
        Ok(())
    }

    /// Checks an input without running the graph. Returns an error for unknown channels and nodes, and for values of the wrong type.
    fn check(&self, input: &DynInput) -> Result<(), RunError>;

    /// Returns the names under which its threads are stored: its name and its earlier ones.
    fn names(&self) -> Vec<String> {
        vec![self.spec().name.to_string()]
    }

    /// Returns the secret channels of this graph and of the graphs in it. Its threads then need a saver that
    /// [protects values](crate::checkpoint::Capabilities::protects_values).
    fn secret_channels(&self) -> Vec<SecretChannel> {
        Vec::new()
    }

    /// Returns the channel that receives messages from outside, if the graph has one.
    fn inbox(&self) -> Option<&str> {
        None
    }
}

/// A compiled graph of any state and context, as a trait object. [`CompiledGraph::erase`](super::CompiledGraph::erase) creates one.
#[async_trait]
pub trait DynGraph: DynGraphInfo {
    /// Runs the graph, as [`invoke`](super::CompiledGraph::invoke) does. The returned state is an object of channel names. Dropping the
    /// future cancels the run.
    async fn run(&self, run: DynRun) -> Result<Outcome<Value>, RunError>;

    /// Returns the state of a thread, as [`state`](super::CompiledGraph::state) does. With a namespace, as in [`DynTask::state`], returns
    /// the state of a subgraph. An unknown namespace is an error.
    async fn state(&self, saver: Arc<dyn Checkpointer>, config: Config) -> Result<DynSnapshot, RunError>;

    /// Returns the states of a thread or a subgraph, newest first.
    async fn history(
        &self,
        saver: Arc<dyn Checkpointer>,
        config: Config,
        query: ListQuery,
    ) -> Result<Vec<DynSnapshot>, RunError>;

    /// Updates a thread from outside, each list as one superstep. Returns the configuration that addresses the last checkpoint.
    ///
    /// With a namespace, the state of a subgraph is updated by its own channels and nodes, and its open questions are withdrawn. A
    /// subgraph without checkpoints cannot be updated.
    async fn update_state(
        &self,
        saver: Arc<dyn Checkpointer>,
        config: Config,
        supersteps: Vec<Vec<DynUpdates>>,
    ) -> Result<Config, RunError>;

    /// Returns true if its runs continue elsewhere when this process ends. Dropping the future does not cancel such a run. A second run
    /// with the same input and run id waits for the first and returns its outcome.
    fn runs_elsewhere(&self) -> bool {
        false
    }

    /// Deletes a thread that is stored outside the saver. The saver has deleted it already.
    async fn forget(&self, thread: &str) -> Result<(), RunError> {
        let _ = thread;
        Ok(())
    }

    /// Sends a message or a signal to a thread, as [`send`](super::CompiledGraph::send) does. Returns false if the id was used before.
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
            reason: "it accepts no messages and signals".to_owned(),
        })
    }

    /// Returns true if a thread of the list [`Inbox::due`](crate::checkpoint::Inbox::due) can be resumed. Otherwise, the thread leaves the list until it is due
    /// again. If the thread can be resumed and `again` is set, it leaves the list until that time.
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

/// Runs graphs outside this process, as on a cluster. `hier-server` accepts a runner, and `hier-restate` implements one.
pub trait Runner: Send + Sync + 'static {
    /// Returns a graph that runs the given one elsewhere under this name.
    fn graph(&self, name: &str, graph: Arc<dyn DynGraph>) -> Arc<dyn DynGraph>;
}

/// The known JSON Schemas of a graph's types.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct GraphSchemas {
    /// The input of a run.
    pub input: Option<Value>,
    /// The output of a run.
    pub output: Option<Value>,
    /// The channels.
    pub state: Option<Value>,
    /// The value from which the context of a run is made.
    pub context: Option<Value>,
    /// The value `config.configurable`.
    pub config: Option<Value>,
    /// The declared questions of the graph and of all graphs within it, by their names.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub questions: BTreeMap<String, QuestionSchemas>,
}

/// The JSON Schemas of a declared question.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct QuestionSchemas {
    /// The question: an object with the name as `type`.
    pub question: Value,
    /// The answer.
    pub answer: Value,
}

/// The values from which the context of a run is made.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct RunContext {
    /// The context of the request, or null.
    pub context: Value,
    /// The `configurable` of the request.
    pub configurable: Map<String, Value>,
    /// The thread of the run.
    pub thread: Option<String>,
}

impl RunContext {
    /// Creates the values of a run with this context.
    pub fn new(context: Value) -> Self {
        Self { context, ..Self::default() }
    }
}

/// A run of a [`DynGraph`] that has not started.
#[derive(Clone)]
#[non_exhaustive]
pub struct DynRun {
    /// The input.
    pub input: DynInput,
    /// The options.
    pub config: Config,
    /// The values from which the context is made.
    pub context: RunContext,
    /// The saver of its checkpoints. The run is not durable without a saver.
    pub saver: Option<Arc<dyn Checkpointer>>,
    /// The store that all threads share.
    pub store: Option<Arc<dyn Store>>,
    /// The kinds of events to send.
    pub modes: Vec<StreamMode>,
    /// The receiver of the events.
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
        // An input may have the value of a secret channel.
        f.debug_struct("DynRun").field("config", &self.config).finish_non_exhaustive()
    }
}

/// Returns the questions for the index of threads. The keys are the ids of the root graph's tasks, and the values are lists of
/// `{"id": …, "value": …}`, with the `name` of declared questions.
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
