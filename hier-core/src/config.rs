//! How a run is configured.

use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use serde_json::{Map, Value};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::checkpoint::{Claim, WhenRunning};
use crate::policy::StepPolicy;
pub use crate::runs::Durability;
use crate::sync::lock;

/// The number of supersteps a run may take unless said otherwise, less one (as in the reference, LangGraph 1.2).
pub const DEFAULT_RECURSION_LIMIT: usize = 10_007;

/// The number of events that wait for a slow consumer of a stream, unless said otherwise.
pub const DEFAULT_STREAM_CAPACITY: usize = 4_096;

/// Waits that are not longer are waited in place.
const SLEEP_IN_PLACE: Duration = Duration::from_secs(10);

/// How a run is configured.
///
/// ```
/// use hier_core::prelude::*;
///
/// let config = Config::thread("case-17").recursion_limit(50).max_concurrency(8);
/// # let _ = config;
/// ```
#[derive(Clone, Debug)]
pub struct Config {
    pub(crate) thread: Option<String>,
    pub(crate) recursion_limit: usize,
    pub(crate) max_concurrency: Option<usize>,
    pub(crate) cancel: Option<CancellationToken>,
    pub(crate) control: Option<RunControl>,
    pub(crate) step_policy: Option<Arc<dyn StepPolicy>>,
    pub(crate) stream_capacity: usize,
    pub(crate) stream_subgraphs: bool,
    pub(crate) checkpoint: Option<Uuid>,
    pub(crate) namespace: String,
    pub(crate) durability: Durability,
    pub(crate) sleep_in_place: Duration,
    /// A time that has come for the run, whatever the clock says.
    pub(crate) now: Option<SystemTime>,
    claim: Claim,
    /// The policy for a thread that somebody else runs, if one was set.
    when_running: Option<WhenRunning>,
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

/// The thread with this id.
impl From<&str> for Config {
    fn from(thread: &str) -> Self {
        Self::new().thread(thread)
    }
}

/// The thread with this id.
impl From<&String> for Config {
    fn from(thread: &String) -> Self {
        Self::new().thread(thread)
    }
}

/// The thread with this id.
impl From<String> for Config {
    fn from(thread: String) -> Self {
        Self::new().thread(thread)
    }
}

impl Config {
    /// Creates a configuration with the defaults.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the thread of the run. A graph with a checkpointer needs one.
    #[must_use]
    pub fn thread(mut self, id: impl Into<String>) -> Self {
        self.thread = Some(id.into());
        self
    }

    /// The id of the thread, if one was given.
    pub fn thread_id(&self) -> Option<&str> {
        self.thread.as_deref()
    }

    /// How many supersteps the run may take, less one: a run of K supersteps needs a limit of K + 1, since applying the
    /// input counts as one. Each subgraph counts its own supersteps against the same limit. At least 1; the default is
    /// [`DEFAULT_RECURSION_LIMIT`].
    #[must_use]
    pub fn recursion_limit(mut self, limit: usize) -> Self {
        self.recursion_limit = limit;
        self
    }

    /// How many tasks of a step may run at once. At least 1; unlimited unless given.
    #[must_use]
    pub fn max_concurrency(mut self, tasks: usize) -> Self {
        self.max_concurrency = Some(tasks);
        self
    }

    /// A token that cancels the run and everything in it: its tasks, and the runs of its subgraphs.
    #[must_use]
    pub fn cancel(mut self, token: CancellationToken) -> Self {
        self.cancel = Some(token);
        self
    }

    /// A handle by which the run can be asked to stop between two steps.
    #[must_use]
    pub fn control(mut self, control: RunControl) -> Self {
        self.control = Some(control);
        self
    }

    /// How many events of a stream may wait for a slow consumer. When there are more, or they hold more than about 64 MiB,
    /// the oldest are dropped and an event says how many. At least 1; the default is [`DEFAULT_STREAM_CAPACITY`].
    #[must_use]
    pub fn stream_capacity(mut self, events: usize) -> Self {
        self.stream_capacity = events;
        self
    }

    /// Whether a stream also has the events of subgraphs, each with the namespace that it comes from.
    #[must_use]
    pub fn stream_subgraphs(mut self, subgraphs: bool) -> Self {
        self.stream_subgraphs = subgraphs;
        self
    }

    /// Addresses this checkpoint of the thread instead of the latest: to read it, or to run from there again. What came
    /// after it stays, as another branch of the history.
    #[must_use]
    pub fn checkpoint(mut self, id: Uuid) -> Self {
        self.checkpoint = Some(id);
        self
    }

    /// Addresses a subgraph's checkpoints by their namespace (as [`StateSnapshot::config`](crate::StateSnapshot) gives it), to
    /// read or update them.
    #[must_use]
    pub fn namespace(mut self, namespace: impl Into<String>) -> Self {
        self.namespace = namespace.into();
        self
    }

    /// The checkpoint that is addressed, if one is.
    pub fn checkpoint_id(&self) -> Option<Uuid> {
        self.checkpoint
    }

    /// The namespace that is addressed: empty for the root graph.
    pub fn checkpoint_namespace(&self) -> &str {
        &self.namespace
    }

    /// When checkpoints are stored. Of no effect without a checkpointer.
    #[must_use]
    pub fn durability(mut self, durability: Durability) -> Self {
        self.durability = durability;
        self
    }

    /// How long [`Run::sleep`](crate::Run::sleep) waits in a run that goes on and holds its thread; for a longer wait the run stops,
    /// and goes on when it is due. 10 seconds unless said otherwise.
    #[must_use]
    pub fn sleep_in_place(mut self, at_most: Duration) -> Self {
        self.sleep_in_place = at_most;
        self
    }

    /// The run takes this time for the present one, unless that has passed already: timers and deadlines that are due by then are due
    /// now. For sweepers and tests, which look ahead.
    #[must_use]
    pub fn at(mut self, now: SystemTime) -> Self {
        self.now = Some(now);
        self
    }

    /// The time of the run.
    pub(crate) fn now(&self) -> SystemTime {
        let clock = SystemTime::now();
        self.now.map_or(clock, |now| now.max(clock))
    }

    /// What happens if the thread is being run by somebody else. Unless said otherwise a new input, and `()`, take the thread
    /// over; an answer, another command and an update of the state are refused ([`WhenRunning::Reject`]).
    #[must_use]
    pub fn when_running(mut self, when: WhenRunning) -> Self {
        self.when_running = Some(when);
        self
    }

    /// The claim on the thread, with what happens if somebody else runs it unless that was said.
    pub(crate) fn claim(&self, unless_said: WhenRunning) -> Claim {
        Claim { when_running: self.when_running.unwrap_or(unless_said), ..self.claim.clone() }
    }

    /// What happens if the thread is being run by somebody else, if that was said.
    pub(crate) fn policy(&self) -> Option<WhenRunning> {
        self.when_running
    }

    /// Names the holder of the thread, in words for people: they stand in the error of a run that is refused meanwhile.
    #[must_use]
    pub fn holder(mut self, holder: impl Into<String>) -> Self {
        self.claim.holder = holder.into();
        self
    }

    /// How long the thread lives after its last run. It is deleted by the next sweep after that
    /// ([`Checkpointer::sweep`](crate::checkpoint::Checkpointer::sweep)).
    #[must_use]
    pub fn time_to_live(mut self, time: Duration) -> Self {
        self.claim.time_to_live = Some(time);
        self
    }

    /// Something that is stored with each checkpoint of the run, and by which checkpoints can be found.
    #[must_use]
    pub fn metadata(mut self, key: impl Into<String>, value: impl Into<Value>) -> Self {
        self.metadata.insert(key.into(), value.into());
        self
    }

    /// The id of the run, stored as the metadata `run_id`.
    #[must_use]
    pub fn run_id(self, id: impl Into<String>) -> Self {
        self.metadata("run_id", id.into())
    }

    /// Stops the run before these nodes, instead of those that the graph declares.
    #[must_use]
    pub fn interrupt_before<N: Into<String>>(mut self, nodes: impl IntoIterator<Item = N>) -> Self {
        self.interrupt_before = Some(nodes.into_iter().map(Into::into).collect());
        self
    }

    /// Stops the run after these nodes, instead of those that the graph declares.
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
            Some((name, _)) => Err(crate::RunError::Config(format!("`{name}` is 0: it must be at least 1"))),
            None => Ok(()),
        }
    }
}

/// Asks a run to stop before its next superstep. The run ends as `Stopped`, unless nothing was left to do.
#[derive(Clone, Debug, Default)]
pub struct RunControl(Arc<Mutex<Option<String>>>);

impl RunControl {
    /// A handle to give to [`Config::control`] and to keep.
    pub fn new() -> Self {
        Self::default()
    }

    /// Asks the run to stop. What is running is finished; the reason is in the outcome.
    pub fn request_drain(&self, reason: impl Into<String>) {
        *lock(&self.0) = Some(reason.into());
    }

    pub(crate) fn requested(&self) -> Option<String> {
        lock(&self.0).clone()
    }
}

/// The name of the user who sends a request. A server that authenticates users adds it to the extensions of the HTTP requests that it
/// passes to routers of other crates, so that they can separate the data of different users.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Identity(pub Arc<str>);
