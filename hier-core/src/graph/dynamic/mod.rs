//! Graphs of any state behind one type: JSON in, JSON out. What a server and a worker hold.

mod erased;

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
pub use crate::engine::program::{DynCommand, DynInput, DynSnapshot, DynTask, DynUpdates};
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
    /// The graph as data: its name, nodes and edges.
    fn spec(&self) -> &GraphSpec;

    /// What is known of its types.
    fn schemas(&self) -> &GraphSchemas;

    /// Returns the JSON Schema of the state of this graph, or of the inner graph that these nodes lead to. Returns none if it is unknown,
    /// or if no such graph exists.
    fn state_schema(&self, nodes: &[String]) -> Option<Value> {
        if nodes.is_empty() { self.schemas().state.clone() } else { None }
    }

    /// Refuses what [`run`](Self::run) would refuse at once: an unknown channel, a value that does not fit, an unknown node.
    fn check(&self, input: &DynInput) -> Result<(), RunError>;

    /// Runs the graph, as [`invoke`](super::CompiledGraph::invoke) does. The state that is returned is an object of channel
    /// names. Dropping the future cancels the run.
    async fn run(&self, run: DynRun) -> Result<Outcome<Value>, RunError>;

    /// The state of a thread, as [`state`](super::CompiledGraph::state) gives it; with a namespace
    /// ([`DynTask::state`] has it), that of a graph inside this one. One that no graph inside has is an error.
    async fn state(&self, saver: Arc<dyn Checkpointer>, config: Config) -> Result<DynSnapshot, RunError>;

    /// The states of a thread, or of a graph inside, newest first.
    async fn history(
        &self,
        saver: Arc<dyn Checkpointer>,
        config: Config,
        query: ListQuery,
    ) -> Result<Vec<DynSnapshot>, RunError>;

    /// Changes a thread from outside, each list as one superstep, and returns the configuration that addresses the last
    /// checkpoint. With a namespace the state of a graph inside is changed, as
    /// [`update_state`](super::CompiledGraph::update_state) of that graph would: by its own channels and nodes. What it had asked
    /// is withdrawn. A call of which nothing is stored is refused, and so is a graph that has no checkpoints.
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
