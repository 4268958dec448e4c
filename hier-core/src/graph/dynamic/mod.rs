//! Graphs of any state behind one type: JSON in, JSON out. What a server and a worker hold.

mod decode;
mod erased;

use std::sync::Arc;
use std::time::SystemTime;

use async_trait::async_trait;
use hier_spec::GraphSpec;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use uuid::Uuid;

pub use decode::DynCommand;
pub use erased::Erased;

use crate::checkpoint::{Checkpointer, ListQuery, Source};
use crate::config::Config;
use crate::engine::{Outcome, StreamMode};
use crate::error::RunError;
use crate::question::Question;
use crate::runs::NewEvent;
use crate::store::Store;

/// Takes the events of a run as they come. It must not wait.
pub type DynTell = Arc<dyn Fn(NewEvent) + Send + Sync>;

/// A compiled graph, whatever its state and its context: [`CompiledGraph::erase`](super::CompiledGraph::erase) makes it.
/// Object-safe.
#[async_trait]
pub trait DynGraph: Send + Sync + 'static {
    /// The graph as data: its name, nodes and edges. [`draw`](super::draw) makes pictures of it.
    fn spec(&self) -> &GraphSpec;

    /// What is known of its types.
    fn schemas(&self) -> &GraphSchemas;

    /// Refuses what [`run`](Self::run) would refuse at once: an unknown channel, a value that does not fit, an unknown node.
    fn check(&self, input: &DynInput) -> Result<(), RunError>;

    /// Runs the graph, as [`invoke`](super::CompiledGraph::invoke) does. The state that is returned is an object of channel
    /// names. Dropping the future cancels the run.
    async fn run(&self, run: DynRun) -> Result<Outcome<Value>, RunError>;

    /// The state of a thread, as [`state`](super::CompiledGraph::state) gives it.
    async fn state(&self, saver: Arc<dyn Checkpointer>, config: Config) -> Result<DynSnapshot, RunError>;

    /// The states of a thread, newest first.
    async fn history(
        &self,
        saver: Arc<dyn Checkpointer>,
        config: Config,
        query: ListQuery,
    ) -> Result<Vec<DynSnapshot>, RunError>;

    /// Changes a thread from outside, each list as one superstep, and returns the configuration that addresses the last
    /// checkpoint.
    async fn update_state(
        &self,
        saver: Arc<dyn Checkpointer>,
        config: Config,
        supersteps: Vec<Vec<DynUpdates>>,
    ) -> Result<Config, RunError>;

    /// The names under which its threads are stored: its own, and those that it had before it was renamed.
    fn names(&self) -> Vec<String> {
        vec![self.spec().name.to_string()]
    }

    /// Whether its runs go on elsewhere when this process ends: then one that is dropped is not cancelled, and who runs the graph again
    /// with the same input and run id waits for the run that is going, or is told how it ended.
    fn runs_elsewhere(&self) -> bool {
        false
    }

    /// Forgets a thread that is kept elsewhere than in the saver, which has forgotten it.
    async fn forget(&self, thread: &str) -> Result<(), RunError> {
        let _ = thread;
        Ok(())
    }

    /// The channel that takes messages from outside its runs, if it has one.
    fn inbox(&self) -> Option<&str> {
        None
    }

    /// Sends something to a thread from outside its runs, as [`send`](super::CompiledGraph::send) does: a message for the inbox, or
    /// a signal of this name. False if something was sent with this id before.
    async fn send(
        &self,
        saver: Arc<dyn Checkpointer>,
        thread: &str,
        id: Uuid,
        signal: Option<&str>,
        value: &Value,
    ) -> Result<bool, RunError> {
        let _ = (saver, thread, id, signal, value);
        Err(RunError::Send { graph: self.spec().name.to_string(), reason: "it takes nothing from outside".to_owned() })
    }

    /// Whether a thread that is listed as due ([`Checkpointer::due`]) has something to go on with. If it has not, it is not listed
    /// any more until it is due again; if it has, and `again` is given, it is not listed until then.
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

/// Hands the runs of graphs to somebody else than this process: to a cluster. `hier-server` takes one, and `hier-restate` has one.
pub trait Runner: Send + Sync + 'static {
    /// The graph that stands for this one, and runs elsewhere under this name.
    fn graph(&self, name: &str, graph: Arc<dyn DynGraph>) -> Arc<dyn DynGraph>;
}

/// What a graph's types look like: JSON Schemas. None where nothing is known.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct GraphSchemas {
    /// What a run takes.
    pub input: Option<Value>,
    /// What a run returns.
    pub output: Option<Value>,
    /// The channels.
    pub state: Option<Value>,
    /// What a run's context is made of.
    pub context: Option<Value>,
    /// What `config.configurable` may hold.
    pub config: Option<Value>,
}

/// What the context of a run is made of.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct RunContext {
    /// What the caller gave as context; null if nothing.
    pub context: Value,
    /// The configuration's `configurable`.
    pub configurable: Map<String, Value>,
    /// The thread, if there is one.
    pub thread: Option<String>,
}

impl RunContext {
    /// A run that was given this context.
    pub fn new(context: Value) -> Self {
        Self { context, ..Self::default() }
    }
}

/// What a run starts with.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum DynInput {
    /// A new input: an object of channel names, or a list of pairs of a name and a value.
    New(Value),
    /// Nothing: the thread goes on where it was.
    Continue,
    /// An answer, an update, where to go.
    Command(DynCommand),
}

/// A run that is to be done.
#[derive(Clone)]
#[non_exhaustive]
pub struct DynRun {
    /// What it starts with.
    pub input: DynInput,
    /// How it is configured.
    pub config: Config,
    /// What the graph's context is made of.
    pub context: RunContext,
    /// Where its checkpoints are kept; the run is not durable without.
    pub saver: Option<Arc<dyn Checkpointer>>,
    /// The memory across threads.
    pub store: Option<Arc<dyn Store>>,
    /// What it tells.
    pub modes: Vec<StreamMode>,
    /// Who is told.
    pub tell: Option<DynTell>,
}

impl DynRun {
    /// A run that starts with this.
    pub fn new(input: DynInput, config: Config) -> Self {
        let (context, saver, store, modes, tell) = (RunContext::default(), None, None, Vec::new(), None);
        Self { input, config, context, saver, store, modes, tell }
    }
}

impl std::fmt::Debug for DynRun {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DynRun").field("input", &self.input).field("config", &self.config).finish_non_exhaustive()
    }
}

/// An update of a thread from outside.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct DynUpdates {
    /// What is written: an object of channel names, a list of pairs, or null.
    pub values: Value,
    /// As which node; as the one that ran last if none. `__start__`, `__end__`, `__input__` and `__copy__` mean what they mean
    /// for [`StateUpdate::as_node`](crate::StateUpdate::as_node).
    pub as_node: Option<String>,
    /// A command, instead of the values: `{"update": …, "goto": …}`.
    pub command: Option<DynCommand>,
}

impl DynUpdates {
    /// An update as the node that ran last.
    pub fn values(values: Value) -> Self {
        Self { values, ..Self::default() }
    }

    /// The same as this node.
    #[must_use]
    pub fn as_node(mut self, node: impl Into<String>) -> Self {
        self.as_node = Some(node.into());
        self
    }
}

/// A thread at one moment: a [`StateSnapshot`](crate::StateSnapshot) whose values are JSON.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct DynSnapshot {
    /// The channels that have a value, by name.
    pub values: Value,
    /// The nodes that run next. Whether anything is left to do is told by [`is_finished`](Self::is_finished).
    pub next: Vec<String>,
    /// Addresses this checkpoint.
    pub config: Config,
    /// The checkpoint; none if nothing is stored.
    pub checkpoint: Option<Uuid>,
    /// The checkpoint that it follows.
    pub parent: Option<Uuid>,
    /// The superstep.
    pub step: i64,
    /// What made the checkpoint.
    pub source: Option<Source>,
    /// What was given with the run's configuration.
    pub metadata: Map<String, Value>,
    /// When the checkpoint was made.
    pub created_at: Option<SystemTime>,
    /// The tasks of the step.
    pub tasks: Vec<DynTask>,
    /// What is asked.
    pub questions: Vec<Question>,
}

impl DynSnapshot {
    /// Whether nothing is left to do, as [`StateSnapshot::is_finished`](crate::StateSnapshot::is_finished) says.
    pub fn is_finished(&self) -> bool {
        self.next.is_empty() && self.tasks.is_empty()
    }
}

/// A task of an open step.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct DynTask {
    /// The id.
    pub id: Uuid,
    /// The node.
    pub node: String,
    /// The number of the Send that started it; none if an edge did.
    pub send: Option<usize>,
    /// What it wrote, if it is done.
    pub result: Option<Value>,
    /// Why it failed, if it did.
    pub error: Option<String>,
    /// What it asks, or asked.
    pub questions: Vec<Question>,
    /// Addresses the checkpoints of the graph that the node runs, if it is one.
    pub state: Option<Config>,
}

/// What is asked, for the index of threads: for each task of the root graph, by its id, its questions, and those of the graphs
/// inside, as `{"id": …, "value": …}`.
pub fn interrupts(questions: &[Question]) -> Map<String, Value> {
    let mut tasks = Map::new();
    for question in questions {
        let Some(task) = question.root_task() else { continue };
        let asked = tasks.entry(task).or_insert_with(|| Value::Array(Vec::new()));
        if let Value::Array(asked) = asked {
            asked.push(serde_json::json!({ "id": question.id, "value": question.value }));
        }
    }
    tasks
}
