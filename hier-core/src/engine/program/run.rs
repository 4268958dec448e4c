//! A node's view of its run.

use std::any::Any;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use serde::Serialize;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use uuid::Uuid;

use super::{BackgroundRuns, NodeHeartbeat, Plan, StepHome, StepLogs, TaskKey, TaskResume, UnaddressedAnswer};
use crate::checkpoint::codec;
use crate::config::Config;
use crate::engine::log::task_log::TaskLog;
use crate::engine::stream::emitter::EventSink;
use crate::engine::stream::event::MessageChunk;
use crate::error::NodeError;
use crate::message::ChatChunk;
use crate::store::Store;

/// The run as a node sees it. A node takes it as an argument: `run: &Run<Desk>`. `C` is the type of the context.
pub struct Run<C = ()> {
    pub(crate) shared: Arc<RunShared<C>>,
    pub(crate) key: TaskKey,
    pub(crate) attempt: u32,
    pub(crate) remaining: usize,
    pub(crate) heartbeat: Option<Arc<NodeHeartbeat>>,
    /// The checkpoint before the superstep. None if the run is not durable.
    pub(crate) base: Option<Uuid>,
    /// The earlier progress of the task. None if the task was not resumed.
    pub(crate) resume: Option<Arc<TaskResume>>,
    /// Tracks the data that the task uses. None if the result cannot be cached.
    pub(crate) taint: Option<Arc<CacheTaint>>,
    /// The name and the task id of the hook that this task runs. None for the task of a node.
    pub(crate) hook: Option<Box<(&'static str, Uuid)>>,
    /// True in the node's error handler.
    pub(crate) is_handler: bool,
}

/// A value that a graph passes to its subgraphs. The engine does not read the value.
pub type Scope = Arc<dyn Any + Send + Sync>;

/// The bounds of the context of a graph that runs.
pub(crate) trait GraphContext: Send + Sync + 'static {}

impl<C: Send + Sync + 'static> GraphContext for C {}

pub(crate) struct RunShared<C> {
    pub(crate) context: Arc<C>,
    pub(crate) config: Arc<Config>,
    pub(crate) plan: Arc<Plan>,
    pub(crate) namespace: Vec<String>,
    pub(crate) sink: Option<Arc<dyn EventSink>>,
    /// Tracks all tasks of the run that the runtime drives. The runtime drops an aborted task a moment later. The run
    /// waits for all drops before it ends, so that no task outlives the run.
    pub(crate) tracker: TaskTracker,
    /// The heartbeat of the nearest outer node.
    pub(crate) heartbeat: Option<Arc<NodeHeartbeat>>,
    pub(crate) id: OnceLock<Uuid>,
    /// The log in which tasks record their results. None if the run is not durable.
    pub(crate) log: Option<Arc<TaskLog>>,
    /// The ids of the checkpoints of the outer graphs, by their namespaces.
    pub(crate) parents: Option<Arc<BTreeMap<String, Uuid>>>,
    pub(crate) store: Option<Arc<dyn Store>>,
    /// The durable steps of the running tasks.
    pub(crate) steps: Arc<StepLogs>,
    /// The storage of durable steps in the nearest outer graph with checkpoints. None if this graph has checkpoints, or
    /// if no outer graph has checkpoints.
    pub(crate) home: Option<Arc<StepHome>>,
    /// An answer for the first task that asks. It belongs to a superstep of an outer graph.
    pub(crate) unaddressed: Option<Arc<UnaddressedAnswer>>,
    /// The taint of the task that runs this graph.
    pub(crate) taint: Option<Arc<CacheTaint>>,
    /// The value that the outer graph passes to its subgraphs.
    pub(crate) scope: Option<Scope>,
    /// The background runs of the root graph and all subgraphs.
    pub(crate) background: Arc<BackgroundRuns>,
}

/// Tracks if a task has used data of one person: the context, the configuration, an answer or a signal.
#[derive(Debug, Default)]
pub(crate) struct CacheTaint {
    /// True if the context or the configuration was used. The cache key can distinguish these.
    surroundings: AtomicBool,
    /// True if an answer or a signal was used.
    answer: AtomicBool,
    /// The taint of the outer task.
    outer: Option<Arc<CacheTaint>>,
}

impl CacheTaint {
    pub(crate) fn within(outer: Option<Arc<CacheTaint>>) -> Self {
        Self { outer, ..Self::default() }
    }

    fn note(&self, what: fn(&Self) -> &AtomicBool) {
        what(self).store(true, Ordering::Relaxed);
        if let Some(outer) = &self.outer {
            outer.note(what);
        }
    }

    pub(crate) fn used_surroundings(&self) -> bool {
        self.surroundings.load(Ordering::Relaxed)
    }

    pub(crate) fn used_answer(&self) -> bool {
        self.answer.load(Ordering::Relaxed)
    }
}

clone_fields!([C] Run<C> { shared, key, attempt, remaining, heartbeat, base, resume, taint, hook, is_handler });

impl<C> fmt::Debug for Run<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Run").field("node", &self.node()).field("step", &self.superstep()).finish_non_exhaustive()
    }
}

impl<C> Run<C> {
    /// Returns the view of the first attempt of a task.
    pub(crate) fn of_task(shared: Arc<RunShared<C>>, key: TaskKey) -> Self {
        Self {
            shared,
            key,
            attempt: 1,
            remaining: 0,
            heartbeat: None,
            base: None,
            resume: None,
            taint: None,
            hook: None,
            is_handler: false,
        }
    }

    /// Returns true if a stream of this run receives the chunks of model replies.
    #[doc(hidden)]
    pub fn wants_messages(&self) -> bool {
        self.shared.sink.as_deref().is_some_and(EventSink::wants_messages)
    }

    /// Sends a chunk of a model's reply to the streams of this run. `id` is the id of the message, and `task` is the
    /// task that called the model.
    #[doc(hidden)]
    pub fn stream_chunk(&self, id: &str, task: Uuid, chunk: ChatChunk) {
        let Some(sink) = self.shared.sink.as_deref() else { return };
        let node = |level: &String| level.split(':').next().unwrap_or_default().to_owned();
        sink.message(MessageChunk {
            id: id.to_owned(),
            node: self.node().to_owned(),
            task,
            step: self.superstep(),
            path: self.namespace().iter().map(node).collect(),
            namespace: self.namespace().to_vec(),
            agent: self.graph().to_owned(),
            chunk,
        });
    }

    /// Returns the [`Scope`] that the outer graph has passed, or `None` if no outer graph has passed one.
    #[doc(hidden)]
    pub fn scope(&self) -> Option<&Scope> {
        self.shared.scope.as_ref()
    }

    /// Returns the background runs that this run has started, in the root graph and in all subgraphs.
    #[doc(hidden)]
    pub fn background(&self) -> &Arc<BackgroundRuns> {
        &self.shared.background
    }

    /// Returns a shared pointer to the context, for code that outlives the task.
    #[doc(hidden)]
    pub fn shared_context(&self) -> &Arc<C> {
        &self.shared.context
    }

    /// Returns the context of the run.
    pub fn context(&self) -> &C {
        // A context without data is the same for all callers.
        if size_of::<C>() > 0 {
            self.note(|taint| &taint.surroundings);
        }
        &self.shared.context
    }

    /// Returns the configuration of the run.
    pub fn config(&self) -> &Config {
        self.note(|taint| &taint.surroundings);
        &self.shared.config
    }

    /// Records that the task has used an answer. Neither this task nor the outer tasks are cached.
    pub(crate) fn note_answer(&self) {
        self.note(|taint| &taint.answer);
    }

    #[inline]
    fn note(&self, what: fn(&CacheTaint) -> &AtomicBool) {
        if let Some(taint) = self.taint.as_ref().or(self.shared.taint.as_ref()) {
            taint.note(what);
        }
    }

    /// Returns the name of the node that runs. In a hook of the graph, returns `on_entry` or `on_exit`.
    pub fn node(&self) -> &str {
        if let Some(hook) = &self.hook {
            return hook.0;
        }
        self.shared.plan.name(self.key.node)
    }

    /// Returns the name of the running graph.
    pub fn graph(&self) -> &str {
        self.shared.plan.graph()
    }

    /// Returns the number of the current superstep. In a new thread, the first nodes run in superstep 1.
    pub fn superstep(&self) -> i64 {
        self.key.step
    }

    /// Returns the number of the current attempt, counted from 1.
    pub fn attempt(&self) -> u32 {
        self.attempt
    }

    /// Returns the number of supersteps that remain until the run must have finished, including the current superstep.
    /// If the number is 1, the run must finish in the current superstep. If the number is 0, the run will fail, because
    /// it cannot finish within the recursion limit.
    pub fn remaining_steps(&self) -> usize {
        self.remaining
    }

    /// Returns true if the run must finish in the current superstep to stay within the recursion limit.
    pub fn is_last_step(&self) -> bool {
        self.remaining == 1
    }

    /// Returns the path from the root graph to this graph, with one entry `node:task id` for each level. Empty in the
    /// root graph.
    pub fn namespace(&self) -> &[String] {
        &self.shared.namespace
    }

    /// Returns the id of this task. It is unique, and does not change when the task runs again.
    pub fn task_id(&self) -> Uuid {
        if let Some(hook) = &self.hook {
            return hook.1;
        }
        if let Some((id, _)) = self.resume.as_ref().and_then(|resume| resume.known.as_ref()) {
            return *id;
        }
        let base = self.base.unwrap_or_else(|| self.shared.checkpoint_id(self.key.step));
        self.shared.plan.task_id(base, &self.shared.namespace, self.key)
    }

    /// Returns true if the engine stores the results of this task, so that a later run can resume the task. Returns
    /// false for a graph without a saver.
    pub fn is_durable(&self) -> bool {
        self.shared.log.is_some() || self.shared.home.is_some()
    }

    /// Returns true if the run continues its thread with the current superstep. An earlier run may then have begun the
    /// superstep and may even have run this task. A retry in the same run does not count.
    pub fn is_resumed(&self) -> bool {
        self.resume.as_ref().is_some_and(|resume| !resume.is_afresh)
    }

    /// Sends a value to the streams of this run that have the mode [`StreamMode::Custom`](crate::StreamMode::Custom).
    /// If the value cannot be converted to JSON, the engine drops it and logs a warning.
    pub fn emit(&self, value: impl Serialize) {
        self.heartbeat();
        let Some(sink) = self.shared.sink.as_ref().filter(|sink| sink.wants_custom()) else { return };
        match codec::to_json(&value) {
            Ok(value) => sink.custom(self.node(), value),
            Err(error) => {
                tracing::warn!(node = self.node(), %error, "dropped a custom event: its value cannot be serialized to JSON");
            }
        }
    }

    /// Reports that the node makes progress. The `idle_timeout` of this node starts again. If the graph is a subgraph,
    /// the `idle_timeout` of each outer node that runs it also starts again.
    pub fn heartbeat(&self) {
        if let Some(heartbeat) = self.any_heartbeat() {
            heartbeat.beat();
        }
    }

    /// Returns the heartbeat of the node, or of the nearest outer node that has one.
    pub(crate) fn any_heartbeat(&self) -> Option<&Arc<NodeHeartbeat>> {
        self.heartbeat.as_ref().or(self.shared.heartbeat.as_ref())
    }

    /// Returns the store, which all threads share.
    ///
    /// # Errors
    ///
    /// Fails if the graph was compiled without [`CompiledGraph::store`](crate::graph::CompiledGraph::store).
    pub fn store(&self) -> Result<&Arc<dyn Store>, NodeError> {
        let missing = || {
            NodeError::permanent(format!(
                "graph `{}` has no store: add `.store(…)` to the compiled graph",
                self.graph()
            ))
        };
        self.shared.store.as_ref().ok_or_else(missing)
    }

    /// Returns true if the run was cancelled. A task of a cancelled run is dropped at its next `await`, so only a long
    /// computation without `await` needs to check this.
    pub fn is_cancelled(&self) -> bool {
        self.token().is_some_and(CancellationToken::is_cancelled)
    }

    /// Returns a future that resolves when the run is cancelled, or `None` if the run has no cancellation token.
    pub fn cancelled(&self) -> Option<impl Future<Output = ()> + Send> {
        self.token().map(CancellationToken::cancelled)
    }

    fn token(&self) -> Option<&CancellationToken> {
        self.shared.config.cancel.as_ref()
    }

    pub(crate) fn place(&self) -> Arc<str> {
        let known = self.resume.as_ref().and_then(|resume| resume.known.as_ref());
        known.map_or_else(|| self.shared.plan.path(self.key).into(), |(_, place)| place.clone())
    }
}

impl<C> RunShared<C> {
    /// The parts of a root graph that is not durable.
    pub(crate) fn new(plan: Arc<Plan>, context: Arc<C>, config: Arc<Config>, tracker: TaskTracker) -> Self {
        Self {
            context,
            config,
            plan,
            namespace: Vec::new(),
            sink: None,
            tracker,
            heartbeat: None,
            id: OnceLock::new(),
            log: None,
            parents: None,
            store: None,
            steps: Arc::default(),
            home: None,
            unaddressed: None,
            taint: None,
            scope: None,
            background: Arc::default(),
        }
    }

    /// Returns the id of the checkpoint before this superstep in a run without a saver. The ids have the order of the
    /// supersteps.
    pub(crate) fn checkpoint_id(&self, step: i64) -> Uuid {
        let base = self.id.get_or_init(|| Uuid::now_v6(&random_node())).as_u128();
        // As in LangGraph, the clock sequence of the id has the superstep modulo 2^14.
        let sequence = u128::from(step.rem_euclid(1 << 14).unsigned_abs());
        Uuid::from_u128((base & !(0x3fff << 48)) | (sequence << 48))
    }
}

/// Returns a random node field for time-ordered ids, so that ids of the same moment differ on all machines.
pub(crate) fn random_node() -> [u8; 6] {
    let mut node = [0; 6];
    fastrand::fill(&mut node);
    // Sets the multicast bit, which no address of a network card has.
    node[0] |= 1;
    node
}
