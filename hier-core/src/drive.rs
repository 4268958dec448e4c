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
use crate::error::RunError;
pub use crate::policy::{GraphEntry, PartialStep, PartialStepEnd, PausedRun, PlannedTask, StepPolicy, StoppedClock};

/// The options of a run that are sent to another machine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Settings {
    /// The id of the thread.
    pub thread: String,
    /// The checkpoint that is addressed.
    pub checkpoint: Option<Uuid>,
    /// The namespace that is addressed.
    pub namespace: String,
    /// The policy for a thread with a live run; none for the default.
    pub when_running: Option<WhenRunning>,
    /// The limit of concurrent tasks.
    pub max_concurrency: Option<usize>,
    /// The time for which the thread is kept after its last run.
    #[serde(default)]
    pub time_to_live: Option<Duration>,
    /// True to stream the events of subgraphs.
    pub stream_subgraphs: bool,
    recursion_limit: usize,
    sleep_in_place: Duration,
    metadata: Map<String, Value>,
    interrupt_before: Option<Vec<String>>,
    interrupt_after: Option<Vec<String>>,
    /// The value from which the context is made: [`RunContext`](crate::graph::RunContext).
    #[serde(default)]
    pub context: Value,
    /// The `configurable` of the request.
    #[serde(default)]
    pub configurable: Map<String, Value>,
}

impl Settings {
    /// Returns the options of a configuration. The thread is empty if the configuration has none.
    pub fn of(config: &Config) -> Self {
        Self {
            thread: config.thread.clone().unwrap_or_default(),
            checkpoint: config.checkpoint,
            namespace: config.namespace.clone(),
            when_running: config.policy(),
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

    /// Returns the id of the run, if it has one: [`Config::run_id`].
    pub fn run_id(&self) -> Option<Uuid> {
        Uuid::try_parse(self.metadata.get("run_id")?.as_str()?).ok()
    }

    /// Returns the options as a configuration.
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

/// Returns the token that cancels a run of this configuration.
pub fn cancellation(config: &Config) -> CancellationToken {
    config.cancel.clone().unwrap_or_default()
}

/// Adds a token that is cancelled before the one of the run, if the run will be continued later.
pub fn pausing(mut config: Config, pause: CancellationToken) -> Config {
    config.pauses.push(pause);
    config
}

/// Checks a configuration as a run does.
pub fn check(config: &Config) -> Result<(), RunError> {
    config.check()
}

/// Adds a policy to a configuration.
pub fn with_policy(mut config: Config, policy: Arc<dyn StepPolicy>) -> Config {
    config.step_policy = Some(policy);
    config
}

/// Sets the time of the run.
pub fn at(config: Config, now: SystemTime) -> Config {
    config.at(now)
}

/// Serializes a thread so that it can be resumed elsewhere. Includes the whole history if `whole` is true, and else the latest checkpoints.
pub fn dump(saver: &MemorySaver, thread: &str, whole: bool) -> Result<Vec<u8>, CodecError> {
    saver.dump(thread, whole)
}

/// Replaces a thread of the saver with the one in these bytes.
pub fn load(saver: &MemorySaver, thread: &str, dump: &[u8]) -> Result<(), CodecError> {
    saver.load(thread, dump)
}

/// Returns a new saver with a copy of a thread.
pub fn apart(saver: &MemorySaver, thread: &str) -> MemorySaver {
    saver.apart(thread)
}
