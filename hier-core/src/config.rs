use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use serde_json::{Map, Value};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::checkpoint::{Claim, WhenRunning};
use crate::policy::StepPolicy;
pub use crate::runs::Durability;
use crate::sync::lock;

/// The default of [`Config::recursion_limit`], which is also the default of LangGraph 1.2.
pub const DEFAULT_RECURSION_LIMIT: usize = 10_007;

/// The default of [`Config::stream_capacity`], as a number of events.
pub const DEFAULT_STREAM_CAPACITY: usize = 4_096;

/// The default of a worker, too.
const DEFAULT_MAX_ATTEMPTS: u32 = 3;

const SLEEP_IN_PLACE: Duration = Duration::from_secs(10);

/// The options of a run, as a value that a program can store and pass to several runs.
///
/// For a single run, set options on its [request](crate::graph::GraphRequest) instead. Methods that read or change a
/// thread accept a `Config` or the id of the thread.
///
/// ```
/// use hier_core::prelude::*;
///
/// let config = Config::new().thread("case-17").recursion_limit(50).max_concurrency(8);
/// # let _ = config;
/// ```
#[derive(Clone, Debug)]
pub struct Config {
    pub(crate) thread: Option<String>,
    pub(crate) recursion_limit: usize,
    pub(crate) max_concurrency: Option<usize>,
    pub(crate) cancel: Option<CancellationToken>,
    /// If a later run will continue this run, one of these tokens is cancelled before `cancel`.
    pub(crate) pauses: Vec<CancellationToken>,
    /// True for a background run that no later run can continue after the run that started it has ended.
    pub(crate) ends_with_outer: bool,
    /// True for a background run that continues after the run that started it has ended.
    pub(crate) is_detached: bool,
    /// Maximum number of attempts to continue a detached run at one checkpoint whose processes end.
    pub(crate) max_attempts: u32,
    pub(crate) control: Option<RunControl>,
    pub(crate) step_policy: Option<Arc<dyn StepPolicy>>,
    pub(crate) stream_capacity: usize,
    pub(crate) stream_subgraphs: bool,
    pub(crate) checkpoint: Option<Uuid>,
    pub(crate) namespace: String,
    pub(crate) durability: Durability,
    pub(crate) sleep_in_place: Duration,
    pub(crate) now: Option<SystemTime>,
    claim: Claim,
    pub(crate) when_running: Option<WhenRunning>,
    pub(crate) metadata: Map<String, Value>,
    pub(crate) interrupt_before: Option<Vec<String>>,
    pub(crate) interrupt_after: Option<Vec<String>>,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            thread: None,
            recursion_limit: DEFAULT_RECURSION_LIMIT,
            max_concurrency: None,
            cancel: None,
            pauses: Vec::new(),
            ends_with_outer: false,
            is_detached: false,
            max_attempts: DEFAULT_MAX_ATTEMPTS,
            control: None,
            step_policy: None,
            stream_capacity: DEFAULT_STREAM_CAPACITY,
            stream_subgraphs: false,
            checkpoint: None,
            namespace: String::new(),
            durability: Durability::default(),
            sleep_in_place: SLEEP_IN_PLACE,
            now: None,
            claim: Claim::default(),
            when_running: None,
            metadata: Map::new(),
            interrupt_before: None,
            interrupt_after: None,
        }
    }
}

/// Converts the id of a thread to a configuration.
macro_rules! from_thread {
    ($($id:ty)*) => {$(impl From<$id> for Config {
        fn from(thread: $id) -> Self {
            Self::new().thread(thread)
        }
    })*};
}

from_thread! { &str &String String }

impl Config {
    /// Creates a configuration with the defaults.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the id of the thread on which the run is stored. Required if the graph has a checkpointer.
    #[must_use]
    pub fn thread(mut self, id: impl Into<String>) -> Self {
        self.thread = Some(id.into());
        self
    }

    /// Returns the id of the thread, or `None` if it is not set.
    pub fn thread_id(&self) -> Option<&str> {
        self.thread.as_deref()
    }

    /// Limits the number of supersteps. Each subgraph counts its own supersteps, and this limit applies to each count.
    /// If the graph or a subgraph exceeds the limit, the run fails with
    /// [`RunError::RecursionLimit`](crate::RunError::RecursionLimit).
    ///
    /// Applying a new input counts as one superstep: K supersteps of nodes then need a limit of K + 1. A run that
    /// continues a thread may need a lower limit. Must be at least 1. Defaults to [`DEFAULT_RECURSION_LIMIT`].
    #[must_use]
    pub fn recursion_limit(mut self, limit: usize) -> Self {
        self.recursion_limit = limit;
        self
    }

    /// Limits the number of tasks that run concurrently in a superstep. Must be at least 1. Defaults to no limit.
    #[must_use]
    pub fn max_concurrency(mut self, tasks: usize) -> Self {
        self.max_concurrency = Some(tasks);
        self
    }

    /// Sets a token that cancels the run, its tasks and its subgraphs.
    #[must_use]
    pub fn cancel(mut self, token: CancellationToken) -> Self {
        self.cancel = Some(token);
        self
    }

    /// Sets a handle with which the program can stop the run between two supersteps.
    #[must_use]
    pub fn control(mut self, control: RunControl) -> Self {
        self.control = Some(control);
        self
    }

    /// Sets the number of events that a stream buffers for a slow consumer. If more events wait, or if the waiting
    /// events take more than about 64 MiB, the stream drops the oldest ones and reports their number as
    /// [`Event::Lagged`](crate::Event::Lagged).
    ///
    /// Must be at least 1. Defaults to [`DEFAULT_STREAM_CAPACITY`].
    #[must_use]
    pub fn stream_capacity(mut self, events: usize) -> Self {
        self.stream_capacity = events;
        self
    }

    /// If `subgraphs` is true, a stream of the run also contains the events of subgraphs. An event of a subgraph has
    /// the namespace of the subgraph. Defaults to false.
    #[must_use]
    pub fn stream_subgraphs(mut self, subgraphs: bool) -> Self {
        self.stream_subgraphs = subgraphs;
        self
    }

    /// Selects a checkpoint of the thread. A read returns the state at this checkpoint, and a run continues from it. If
    /// a later checkpoint exists, the run starts a new branch of the history, and the later checkpoints stay stored.
    /// Defaults to the latest checkpoint.
    #[must_use]
    pub fn checkpoint(mut self, id: Uuid) -> Self {
        self.checkpoint = Some(id);
        self
    }

    /// Selects a subgraph, whose compiled graph can then read or update its state. The namespace is the path of the
    /// subgraph in the thread. [`SnapshotTask::state`](crate::SnapshotTask::state) contains a configuration with this
    /// namespace. Defaults to the root graph.
    #[must_use]
    pub fn namespace(mut self, namespace: impl Into<String>) -> Self {
        self.namespace = namespace.into();
        self
    }

    /// Returns the id of the selected checkpoint, or `None` for the latest.
    pub fn checkpoint_id(&self) -> Option<Uuid> {
        self.checkpoint
    }

    /// Returns the selected namespace. It is empty for the root graph.
    pub fn checkpoint_namespace(&self) -> &str {
        &self.namespace
    }

    /// Sets when checkpoints are stored. Defaults to [`Durability::Async`]. Has no effect without a checkpointer.
    #[must_use]
    pub fn durability(mut self, durability: Durability) -> Self {
        self.durability = durability;
        self
    }

    /// Sets the longest sleep ([`Run::sleep`](crate::Run::sleep)) for which the run keeps running. For a longer sleep,
    /// the run stops, and a [sweeper](crate::graph::CompiledGraph::sweeper) or a worker resumes the thread when the
    /// time has come. Defaults to 10 seconds.
    #[must_use]
    pub fn sleep_in_place(mut self, at_most: Duration) -> Self {
        self.sleep_in_place = at_most;
        self
    }

    /// Sets the time that the run uses as the current time, for tests and sweepers. Timers and deadlines up to this
    /// time are due. When the system clock has passed this time, the run uses the system clock instead.
    #[must_use]
    pub fn at(mut self, now: SystemTime) -> Self {
        self.now = Some(now);
        self
    }

    /// Returns the configuration of a background run on another thread. `is_resumable` is true if the graph that starts
    /// the background run has checkpoints, so that a later run can continue both. A detached run leaves its thread to a
    /// run that already drives it. Other background runs take their thread over.
    pub(crate) fn in_background(
        &self,
        thread: &str,
        cancel: CancellationToken,
        pause: CancellationToken,
        is_resumable: bool,
        is_detached: bool,
    ) -> Self {
        // The run that starts this one holds the lease of the outer thread. So another process can drive this run only
        // if it is detached.
        let when_running = if is_detached { WhenRunning::Reject } else { WhenRunning::TakeOver };
        Self {
            thread: Some(thread.to_owned()),
            cancel: Some(cancel),
            pauses: self.pauses.iter().cloned().chain([pause]).collect(),
            ends_with_outer: self.ends_with_outer || !is_resumable,
            is_detached,
            // The attempts of a detached run are counted at its last checkpoint. A node can end the process, so that
            // checkpoint must be stored before the next node runs.
            durability: if is_detached { Durability::Sync } else { self.durability },
            control: None,
            step_policy: None,
            checkpoint: None,
            namespace: String::new(),
            sleep_in_place: Duration::MAX,
            when_running: Some(when_running),
            interrupt_before: Some(Vec::new()),
            interrupt_after: Some(Vec::new()),
            ..self.clone()
        }
    }

    /// Returns true if the run was cancelled and no later run will continue it.
    pub(crate) fn is_abandoned(&self) -> bool {
        self.cancel.as_ref().is_some_and(CancellationToken::is_cancelled)
            && !self.pauses.iter().any(CancellationToken::is_cancelled)
    }

    /// Returns the node field of the ids of the root graph, which identifies the run if a policy has set it.
    pub(crate) fn author(&self) -> Option<[u8; 6]> {
        Some(self.step_policy.as_ref()?.clock("")?.node)
    }

    pub(crate) fn now(&self) -> SystemTime {
        let clock = SystemTime::now();
        self.now.map_or(clock, |now| now.max(clock))
    }

    /// Sets what happens if another run holds the thread.
    ///
    /// The default depends on the call. It is [`WhenRunning::TakeOver`] for a new input and for `()`. It is
    /// [`WhenRunning::Reject`] for answers, other commands and state updates.
    #[must_use]
    pub fn when_running(mut self, when: WhenRunning) -> Self {
        self.when_running = Some(when);
        self
    }

    pub(crate) fn claim(&self, default: WhenRunning) -> Claim {
        Claim { when_running: self.when_running.unwrap_or(default), ..self.claim.clone() }
    }

    /// Sets the name of this run for error messages. If another run cannot claim the thread while this run holds it,
    /// the other run fails with [`SaverError::Busy`](crate::checkpoint::SaverError::Busy). This error contains the
    /// name.
    #[must_use]
    pub fn holder(mut self, holder: impl Into<String>) -> Self {
        self.claim.holder = holder.into();
        self
    }

    /// Sets the time for which savers keep the thread after its last run. After this time the thread is expired, and
    /// [`ThreadAdmin::sweep`](crate::checkpoint::ThreadAdmin::sweep) deletes the thread. Defaults to no limit.
    #[must_use]
    pub fn time_to_live(mut self, time: Duration) -> Self {
        self.claim.time_to_live = Some(time);
        self
    }

    /// Adds an entry to the metadata of each checkpoint of the run. Programs can search threads and checkpoints by
    /// their metadata.
    #[must_use]
    pub fn metadata(mut self, key: impl Into<String>, value: impl Into<Value>) -> Self {
        self.metadata.insert(key.into(), value.into());
        self
    }

    /// Sets the id of the run. Each checkpoint of the run has this id as the metadata entry `run_id`.
    #[must_use]
    pub fn run_id(self, id: impl Into<String>) -> Self {
        self.metadata("run_id", id.into())
    }

    /// Sets the nodes before which this run stops with [`StopReason::Before`](crate::StopReason::Before). The
    /// breakpoints that the graph itself declares with `interrupt_before` have no effect on this run.
    #[must_use]
    pub fn interrupt_before<N: Into<String>>(mut self, nodes: impl IntoIterator<Item = N>) -> Self {
        self.interrupt_before = Some(nodes.into_iter().map(Into::into).collect());
        self
    }

    /// Sets the nodes after which this run stops with [`StopReason::After`](crate::StopReason::After). The breakpoints
    /// that the graph itself declares with `interrupt_after` have no effect on this run.
    #[must_use]
    pub fn interrupt_after<N: Into<String>>(mut self, nodes: impl IntoIterator<Item = N>) -> Self {
        self.interrupt_after = Some(nodes.into_iter().map(Into::into).collect());
        self
    }

    pub(crate) fn check(&self) -> Result<(), crate::RunError> {
        let minimum = [
            ("recursion_limit", self.recursion_limit),
            ("max_concurrency", self.max_concurrency.unwrap_or(1)),
            ("stream_capacity", self.stream_capacity),
        ];
        match minimum.iter().find(|(_, value)| *value == 0) {
            Some((name, _)) => Err(crate::RunError::Config(format!("`{name}` is 0: set it to at least 1"))),
            None => Ok(()),
        }
    }
}

/// A handle that stops a run before its next superstep.
///
/// The stopped run returns [`Outcome::Stopped`](crate::Outcome::Stopped). If the superstep before the stop was the last
/// of the run, the run returns [`Outcome::Finished`](crate::Outcome::Finished) instead.
#[derive(Clone, Debug, Default)]
pub struct RunControl(Arc<Mutex<Option<String>>>);

impl RunControl {
    /// Creates a handle. Pass a clone to [`Config::control`].
    pub fn new() -> Self {
        Self::default()
    }

    /// Requests that the run stops after its current superstep. This method does not wait until the run has stopped.
    /// [`StopReason::Drained`](crate::StopReason::Drained) contains the `reason`.
    pub fn request_drain(&self, reason: impl Into<String>) {
        *lock(&self.0) = Some(reason.into());
    }

    pub(crate) fn requested(&self) -> Option<String> {
        lock(&self.0).clone()
    }
}

/// The name of an authenticated user.
///
/// A server that authenticates users adds this value to the extensions of each HTTP request. The routers of your
/// program can read it there, for example to show each user only their own data.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Identity(pub Arc<str>);
