//! A node's view of its run.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

use serde::Serialize;
use serde_json::Value;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use uuid::Uuid;

use super::{Heartbeat, Plan, Scope, StepHome, StepLogs, TaskKey, TaskResume};
use crate::checkpoint::codec;
use crate::config::Config;
use crate::engine::log::task_log::TaskLog;
use crate::engine::stream::emitter::EventSink;
use crate::engine::stream::event::MessageChunk;
use crate::error::NodeError;
use crate::message::ChatChunk;
use crate::store::Store;
use crate::sync::lock;

/// The run, as a node sees it: `run: &Run<Desk>`. `C` is the graph's context.
pub struct Run<C = ()> {
    pub(crate) shared: Arc<Shared<C>>,
    pub(crate) key: TaskKey,
    pub(crate) attempt: u32,
    pub(crate) remaining: usize,
    pub(crate) heartbeat: Option<Arc<Heartbeat>>,
    /// The checkpoint that the step started from, if the run is durable.
    pub(crate) base: Option<Uuid>,
    /// The earlier progress of the task, if it goes on where it stopped.
    pub(crate) resume: Option<Arc<TaskResume>>,
    /// Set if the task's result may be used again by others.
    pub(crate) taint: Option<Arc<CacheTaint>>,
    /// What runs, if it is no node but code that belongs to entering or leaving the graph, and its id.
    pub(crate) hook: Option<Box<(&'static str, Uuid)>>,
    /// Whether the node's error handler runs.
    pub(crate) is_handler: bool,
}

/// The parts that all tasks of a run share.
pub(crate) struct Shared<C> {
    pub(crate) context: Arc<C>,
    pub(crate) config: Arc<Config>,
    pub(crate) plan: Arc<Plan>,
    pub(crate) namespace: Vec<String>,
    pub(crate) sink: Option<Arc<dyn EventSink>>,
    /// The tasks of the whole tree of graphs that the runtime drives by themselves. To abort one is to ask the runtime to drop
    /// it, which happens a moment later: the run waits for that moment before it ends, so that no task outlives it.
    pub(crate) tracker: TaskTracker,
    /// That of the node that this graph is, or is in.
    pub(crate) heartbeat: Option<Arc<Heartbeat>>,
    pub(crate) id: OnceLock<Uuid>,
    /// Where tasks write down what they have done, if the run is durable.
    pub(crate) log: Option<Arc<TaskLog>>,
    /// For each graph around this one its namespace and the id of its checkpoint.
    pub(crate) parents: Option<Arc<BTreeMap<String, Uuid>>>,
    pub(crate) store: Option<Arc<dyn Store>>,
    /// What is known of the durable steps of the tasks that run.
    pub(crate) steps: Arc<StepLogs>,
    /// Where these are stored, if this graph has no checkpoints and one around it has.
    pub(crate) home: Option<Arc<StepHome>>,
    /// Of a graph inside: an answer for whoever asks first, given in a step of the graph around it.
    pub(crate) unaddressed: Option<Arc<UnaddressedAnswer>>,
    /// That of the task that runs this graph.
    pub(crate) taint: Option<Arc<CacheTaint>>,
    /// What the code around passes down.
    pub(crate) scope: Option<Scope>,
}

/// Whether a task has used what may be one person's: the context, the configuration, an answer.
#[derive(Debug, Default)]
pub(crate) struct CacheTaint {
    /// The context or the configuration, which a key of a cache can tell apart.
    surroundings: AtomicBool,
    /// An answer, or a signal.
    answer: AtomicBool,
    /// That of the task around it.
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

    /// Whether the context or the configuration was used.
    pub(crate) fn used_surroundings(&self) -> bool {
        self.surroundings.load(Ordering::Relaxed)
    }

    /// Whether an answer was used.
    pub(crate) fn used_answer(&self) -> bool {
        self.answer.load(Ordering::Relaxed)
    }
}

impl<C> Clone for Run<C> {
    fn clone(&self) -> Self {
        Self {
            shared: self.shared.clone(),
            key: self.key,
            attempt: self.attempt,
            remaining: self.remaining,
            heartbeat: self.heartbeat.clone(),
            base: self.base,
            resume: self.resume.clone(),
            taint: self.taint.clone(),
            hook: self.hook.clone(),
            is_handler: self.is_handler,
        }
    }
}

impl<C> fmt::Debug for Run<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Run").field("node", &self.node()).field("step", &self.superstep()).finish_non_exhaustive()
    }
}

impl<C> Run<C> {
    /// The first attempt of a task.
    pub(crate) fn of_task(shared: Arc<Shared<C>>, key: TaskKey) -> Self {
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

    /// Returns true if chunks of messages are streamed.
    #[doc(hidden)]
    pub fn wants_messages(&self) -> bool {
        self.shared.sink.as_deref().is_some_and(EventSink::wants_messages)
    }

    /// Streams a chunk of the message with this id, from this task.
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

    /// The value that the code around the graph passes down.
    #[doc(hidden)]
    pub fn scope(&self) -> Option<&Scope> {
        self.shared.scope.as_ref()
    }

    /// The context, for a copy that outlives the task.
    #[doc(hidden)]
    pub fn shared_context(&self) -> &Arc<C> {
        &self.shared.context
    }

    /// The context that was given to `invoke` or `stream`.
    pub fn context(&self) -> &C {
        // A context without a byte tells nobody from anybody.
        if size_of::<C>() > 0 {
            self.note(|taint| &taint.surroundings);
        }
        &self.shared.context
    }

    /// The configuration of the run.
    pub fn config(&self) -> &Config {
        self.note(|taint| &taint.surroundings);
        &self.shared.config
    }

    /// An answer has been used: the result of the task, and of those around it, is for nobody else.
    pub(crate) fn note_answer(&self) {
        self.note(|taint| &taint.answer);
    }

    /// What may be one person's has been used.
    #[inline]
    fn note(&self, what: fn(&CacheTaint) -> &AtomicBool) {
        if let Some(taint) = self.taint.as_ref().or(self.shared.taint.as_ref()) {
            taint.note(what);
        }
    }

    /// The name of the node that is running; `on_entry` or `on_exit` in the code of these.
    pub fn node(&self) -> &str {
        if let Some(hook) = &self.hook {
            return hook.0;
        }
        self.shared.plan.name(self.key.node)
    }

    /// The name of the graph that is running.
    pub fn graph(&self) -> &str {
        self.shared.plan.graph()
    }

    /// The number of the superstep. The first that runs nodes on a fresh thread is 1.
    pub fn superstep(&self) -> i64 {
        self.key.step
    }

    /// The number of the attempt, from 1.
    pub fn attempt(&self) -> u32 {
        self.attempt
    }

    /// How many supersteps the run may still take, this one included.
    pub fn remaining_steps(&self) -> usize {
        self.remaining
    }

    /// Whether this superstep is the last that the recursion limit allows to complete.
    pub fn is_last_step(&self) -> bool {
        self.remaining == 1
    }

    /// The path of graphs from the root to this one: `node:task id` for each. Empty in the root.
    pub fn namespace(&self) -> &[String] {
        &self.shared.namespace
    }

    /// The id of this task: it is the same each time the task is run again, and no other task has it.
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

    /// Whether what the task does is stored, so that it may go on in another process: its run, or one around it, has a checkpointer.
    pub fn is_durable(&self) -> bool {
        self.shared.log.is_some() || self.shared.home.is_some()
    }

    /// Whether the task was begun before and goes on where it stopped: after an interrupt, a failure or a crash.
    pub fn is_resumed(&self) -> bool {
        self.resume.as_ref().is_some_and(|resume| !resume.is_afresh)
    }

    /// Sends a value to those who stream in the mode `Custom`; does nothing if nobody does. The value is converted to
    /// JSON; one that cannot be is logged as a warning and dropped.
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

    /// Reports that the node is alive: restarts its `idle_timeout`, and those of the nodes around its graph.
    pub fn heartbeat(&self) {
        if let Some(heartbeat) = self.any_heartbeat() {
            heartbeat.beat();
        }
    }

    /// The node's own heartbeat, or that of the node around its graph.
    pub(crate) fn any_heartbeat(&self) -> Option<&Arc<Heartbeat>> {
        self.heartbeat.as_ref().or(self.shared.heartbeat.as_ref())
    }

    /// The memory across threads that the graph was given with
    /// [`CompiledGraph::store`](crate::graph::CompiledGraph::store); an error if it was given none.
    pub fn store(&self) -> Result<&Arc<dyn Store>, NodeError> {
        let missing = || {
            NodeError::permanent(format!(
                "graph `{}` was given no store: use `.store(…)` where it is compiled",
                self.graph()
            ))
        };
        self.shared.store.as_ref().ok_or_else(missing)
    }

    /// Whether the run was cancelled. Its tasks are dropped at their next `await`; a node that computes for long asks
    /// here.
    pub fn is_cancelled(&self) -> bool {
        self.token().is_some_and(CancellationToken::is_cancelled)
    }

    /// Resolves when the run is cancelled; `None` if it has no cancellation token.
    pub fn cancelled(&self) -> Option<impl Future<Output = ()> + Send> {
        self.token().map(CancellationToken::cancelled)
    }

    fn token(&self) -> Option<&CancellationToken> {
        self.shared.config.cancel.as_ref()
    }

    /// The place of the task in its step.
    pub(crate) fn place(&self) -> Arc<str> {
        let known = self.resume.as_ref().and_then(|resume| resume.known.as_ref());
        known.map_or_else(|| self.shared.plan.path(self.key).into(), |(_, place)| place.clone())
    }
}

/// An answer for whoever asks first, also in a graph inside.
#[derive(Debug)]
pub(crate) struct UnaddressedAnswer {
    answer: Mutex<Option<Value>>,
    /// Where it is stored until it is taken.
    pub(crate) namespace: Arc<str>,
    pub(crate) checkpoint: Uuid,
}

impl UnaddressedAnswer {
    pub(crate) fn new(answer: Value, namespace: Arc<str>, checkpoint: Uuid) -> Self {
        Self { answer: Mutex::new(Some(answer)), namespace, checkpoint }
    }

    /// Takes the answer, unless a task has taken it.
    pub(super) fn take(&self) -> Option<Value> {
        lock(&self.answer).take()
    }

    /// Whether nobody has taken it yet.
    pub(crate) fn waits(&self) -> bool {
        lock(&self.answer).is_some()
    }
}

impl<C> Shared<C> {
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
        }
    }

    /// The id that the checkpoint at the start of this step has: ordered like the steps.
    pub(crate) fn checkpoint_id(&self, step: i64) -> Uuid {
        let base = self.id.get_or_init(|| Uuid::now_v6(&random_node())).as_u128();
        // The reference keeps the step, modulo 2^14, in the clock sequence of the id.
        let sequence = u128::from(step.rem_euclid(1 << 14).unsigned_abs());
        Uuid::from_u128((base & !(0x3fff << 48)) | (sequence << 48))
    }
}

/// The part of a time-ordered id that tells apart what is made at the same moment, on any number of machines.
pub(crate) fn random_node() -> [u8; 6] {
    let mut node = [0; 6];
    fastrand::fill(&mut node);
    // The bit for addresses that no network card has.
    node[0] |= 1;
    node
}
