//! What a driver outside of this crate needs to run a graph piece by piece: `hier-restate`. Not public API, and exempt from semver.
//!
//! A [`StepPolicy`] decides where a run pauses: the driver runs the graph with [`with_policy`] on a saver that records the commits. The next
//! run continues from that record, on any machine. [`dump`], [`load`] and [`apart`] move a [`MemorySaver`] between machines.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::checkpoint::{CodecError, MemorySaver, WhenRunning, codec};
use crate::config::{Config, Durability};
use crate::engine::program::{Command, CommandAnswers, Input, Jump};
use crate::error::RunError;
use crate::graph::{DynCommand, DynInput};
pub use crate::policy::{GraphEntry, PartialStep, PartialStepEnd, PausedRun, PlannedTask, StepPolicy, StoppedClock};
use crate::state::{ChannelWrite, Values, Writes};

/// What of a configuration reaches another machine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Settings {
    /// The thread.
    pub thread: String,
    /// The checkpoint that is addressed.
    pub checkpoint: Option<Uuid>,
    /// The namespace that is addressed.
    pub namespace: String,
    /// What happens to a run that is going; none for what is usual.
    pub when_running: Option<WhenRunning>,
    /// The most tasks of a step at once.
    pub max_concurrency: Option<usize>,
    /// How long the thread lives after its last run.
    #[serde(default)]
    pub time_to_live: Option<Duration>,
    /// Whether events of subgraphs are told.
    pub stream_subgraphs: bool,
    recursion_limit: usize,
    sleep_in_place: Duration,
    metadata: Map<String, Value>,
    interrupt_before: Option<Vec<String>>,
    interrupt_after: Option<Vec<String>>,
    /// What the graph's context is made of ([`RunContext`](crate::graph::RunContext)).
    #[serde(default)]
    pub context: Value,
    /// The configuration's `configurable`, likewise.
    #[serde(default)]
    pub configurable: Map<String, Value>,
}

impl Settings {
    /// Those of a configuration; its thread is empty if it names none.
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

    /// The id of the run, if it is one of a server's ([`Config::run_id`]).
    pub fn run_id(&self) -> Option<Uuid> {
        Uuid::try_parse(self.metadata.get("run_id")?.as_str()?).ok()
    }

    /// The configuration.
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

/// Resolves when a run of this configuration is cancelled.
pub fn cancellation(config: &Config) -> CancellationToken {
    config.cancel.clone().unwrap_or_default()
}

/// Refuses what a run would refuse at once.
pub fn check(config: &Config) -> Result<(), RunError> {
    config.check()
}

/// A configuration with a policy.
pub fn with_policy(mut config: Config, policy: Arc<dyn StepPolicy>) -> Config {
    config.step_policy = Some(policy);
    config
}

/// The configuration of a run that what is due at this time wakes.
pub fn at(config: Config, now: SystemTime) -> Config {
    config.at(now)
}

/// A thread as bytes, with all that it needs to go on elsewhere; of its history the latest checkpoints, unless all is wanted.
pub fn dump(saver: &MemorySaver, thread: &str, whole: bool) -> Result<Vec<u8>, CodecError> {
    saver.dump(thread, whole)
}

/// The thread that these bytes are of, in place of what the saver has.
pub fn load(saver: &MemorySaver, thread: &str, dump: &[u8]) -> Result<(), CodecError> {
    saver.load(thread, dump)
}

/// A saver of its own with a copy of a thread.
pub fn apart(saver: &MemorySaver, thread: &str) -> MemorySaver {
    saver.apart(thread)
}

/// An input as JSON, for graphs that are behind a wire.
pub fn input_json<S: Values>(input: Input<S>) -> Result<DynInput, serde_json::Error> {
    Ok(match input {
        Input::Continue => DynInput::Continue,
        Input::New(writes) => DynInput::New(pairs(&writes)?),
        Input::Whole(writes) => DynInput::Whole(pairs(&writes)?),
        Input::Command(command) => DynInput::Command(command_json(*command)?),
    })
}

/// A command as JSON.
pub fn command_json<S: Values>(command: Command<S>) -> Result<DynCommand, serde_json::Error> {
    let jump = |jump: Jump| {
        let sent = jump.arg.map(|arg| arg.to_json()).transpose().map_err(serde::ser::Error::custom)?;
        let node = jump.node.map_or_else(|| hier_spec::END.to_owned(), std::borrow::Cow::into_owned);
        Ok::<_, serde_json::Error>((node, sent))
    };
    let goto = command.jumps.into_iter().map(jump).collect::<Result<_, _>>()?;
    let resume = command.answers.map(|answers| match answers {
        CommandAnswers::One(answer) => answer,
        CommandAnswers::ById(answers) => Value::Object(answers.into_iter().collect()),
    });
    Ok(DynCommand { resume, update: pairs(&command.writes)?, goto })
}

/// Writes in order, as pairs of a channel and a value.
fn pairs<S: Values>(writes: &Writes<S>) -> Result<Value, serde_json::Error> {
    let pair = |write: &S::Write| Ok(Value::Array(vec![write.name().into(), write.to_json()?]));
    writes.iter().map(pair).collect()
}

/// A state with the channels of an object in place of its own.
pub fn state_of<S: Values>(mut state: S, values: &Value) -> Result<S, CodecError> {
    let mut channel = 0;
    while let Some(name) = state.channel(channel).map(|spec| spec.name.clone()) {
        if let Some(value) = values.get(&*name) {
            state.load(channel, &codec::encode(value)?)?;
        }
        channel += 1;
    }
    Ok(state)
}
