//! Items with which a driver in another crate, such as `hier-restate`, runs a graph in slices. Not public API, and
//! exempt from semver.
//!
//! A [`StepPolicy`] decides where a run pauses: the driver runs the graph with [`with_policy`] on a saver that records
//! the commits. The next run continues from that record, on any machine. [`dump`], [`load`] and [`apart`] move a
//! [`MemorySaver`] between machines.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::checkpoint::{CodecError, MemorySaver, WhenRunning};
use crate::config::{Config, Durability};
pub use crate::engine::has_command;
use crate::error::RunError;
pub use crate::policy::{GraphEntry, PartialStep, PartialStepEnd, PausedRun, PlannedTask, StepPolicy, StoppedClock};

/// The options of a run as a serializable value, which a driver can send to another machine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Settings {
    /// The id of the thread.
    pub thread: String,
    /// The id of the checkpoint that the run continues from. `None` selects the latest.
    pub checkpoint: Option<Uuid>,
    /// The namespace of the selected subgraph. Empty for the root graph.
    pub namespace: String,
    /// The reaction to another run that holds the thread. `None` selects a default that depends on the input. See
    /// [`Config::when_running`].
    pub when_running: Option<WhenRunning>,
    /// The number of tasks that may run concurrently in a superstep. `None` means no limit.
    pub max_concurrency: Option<usize>,
    /// The time for which the thread is kept after its last run. `None` means no limit.
    #[serde(default)]
    pub time_to_live: Option<Duration>,
    /// True if streams contain the events of subgraphs.
    pub stream_subgraphs: bool,
    recursion_limit: usize,
    sleep_in_place: Duration,
    metadata: Map<String, Value>,
    interrupt_before: Option<Vec<String>>,
    interrupt_after: Option<Vec<String>>,
    /// The context in the client's request. See [`RunContext::context`](crate::graph::RunContext::context).
    #[serde(default)]
    pub context: Value,
    /// The value of `config.configurable` in the client's request.
    #[serde(default)]
    pub configurable: Map<String, Value>,
}

impl Settings {
    /// Copies the options from a configuration. If the configuration has no thread, the id of the thread is empty. The
    /// context and the `configurable` are empty: set them afterwards.
    pub fn of(config: &Config) -> Self {
        Self {
            thread: config.thread.clone().unwrap_or_default(),
            checkpoint: config.checkpoint,
            namespace: config.namespace.clone(),
            when_running: config.when_running,
            max_concurrency: config.max_concurrency,
            time_to_live: config.claim(WhenRunning::TakeOver).time_to_live,
            stream_subgraphs: config.stream_subgraphs,
            recursion_limit: config.recursion_limit,
            sleep_in_place: config.sleep_in_place,
            metadata: config.metadata.clone(),
            interrupt_before: config.interrupt_before.clone(),
            interrupt_after: config.interrupt_after.clone(),
            context: Value::Null,
            configurable: Map::new(),
        }
    }

    /// Returns the id that [`Config::run_id`] has set. Returns `None` without such an id, or if the id is not a UUID.
    pub fn run_id(&self) -> Option<Uuid> {
        Uuid::try_parse(self.metadata.get("run_id")?.as_str()?).ok()
    }

    /// Creates a configuration with these options and [`Durability::Sync`]. The configuration does not contain
    /// `when_running`, `context` and `configurable`.
    pub fn config(&self) -> Config {
        let mut config = Config::new().thread(&self.thread).durability(Durability::Sync).namespace(&self.namespace);
        if let Some(lives) = self.time_to_live {
            config = config.time_to_live(lives);
        }
        config.checkpoint = self.checkpoint;
        config.max_concurrency = self.max_concurrency;
        config.stream_subgraphs = self.stream_subgraphs;
        config.recursion_limit = self.recursion_limit;
        config.sleep_in_place = self.sleep_in_place;
        config.metadata.clone_from(&self.metadata);
        config.interrupt_before.clone_from(&self.interrupt_before);
        config.interrupt_after.clone_from(&self.interrupt_after);
        config
    }
}

/// Returns the cancellation token of the configuration. If the configuration has none, returns a new token.
pub fn cancellation(config: &Config) -> CancellationToken {
    config.cancel.clone().unwrap_or_default()
}

/// Adds two options of a worker to `config`. `max_attempts` is the maximum number of attempts to continue a detached
/// subagent from one checkpoint.
///
/// With the token `pause`, the worker can pause the run, so that another run continues it later. To pause the run,
/// cancel `pause` first, and then the cancellation token of the run. A paused run stops without the cleanup of
/// [`Run::with_cleanup`](crate::Run::with_cleanup).
pub fn for_worker(mut config: Config, pause: CancellationToken, max_attempts: u32) -> Config {
    config.pauses.push(pause);
    config.max_attempts = max_attempts;
    config
}

/// Checks the limits in a configuration, as each run does when it starts.
///
/// # Errors
///
/// Fails with [`RunError::Config`] if `recursion_limit`, `max_concurrency` or `stream_capacity` is 0.
pub fn check(config: &Config) -> Result<(), RunError> {
    config.check()
}

/// Sets the policy that decides where runs with this configuration pause.
pub fn with_policy(mut config: Config, policy: Arc<dyn StepPolicy>) -> Config {
    config.step_policy = Some(policy);
    config
}

/// Sets the time that the run uses as the current time. See [`Config::at`].
pub fn at(config: Config, now: SystemTime) -> Config {
    config.at(now)
}

/// Exports a thread and its inbox as bytes, which [`load`] imports on another machine. If `whole` is true, the bytes
/// contain the whole history. Otherwise, they contain only the checkpoints that the thread needs to continue.
pub fn dump(saver: &MemorySaver, thread: &str, whole: bool) -> Result<Vec<u8>, CodecError> {
    saver.dump(thread, whole)
}

/// Imports a thread that [`dump`] has exported. Replaces an existing thread with this id.
pub fn load(saver: &MemorySaver, thread: &str, dump: &[u8]) -> Result<(), CodecError> {
    saver.load(thread, dump)
}

/// Returns a new saver with a copy of the thread and its inbox. Later changes in one saver do not affect the other.
pub fn apart(saver: &MemorySaver, thread: &str) -> MemorySaver {
    saver.apart(thread)
}
