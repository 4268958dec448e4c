//! CacheEntries of nodes with a `cache`, kept for equal inputs.

use std::collections::HashMap;
use std::sync::Mutex;
use std::time::Duration;

use serde::Serialize;
use tokio::time::Instant;

use super::{By, Destinations, Sends, Task, TaskOutcome};
use crate::checkpoint::{CodecError, codec};
use crate::error::NodeError;
use crate::state::{Values, Writes};
use crate::sync::lock;

/// What one argument of a node is of all that is there when the node starts.
#[derive(Clone, Copy, Debug)]
pub enum Reads {
    /// Nobody knows: what the node was sent, or else the state.
    Input,
    /// The state.
    State,
    /// The channels of the state with these names; none is what is managed.
    Channels(fn() -> Vec<Option<&'static str>>),
    /// What the node was sent.
    Sent,
    /// Nothing that results are told apart by.
    Nothing,
}

/// What a function says that tells inputs of a node apart.
pub struct InputKey(pub(crate) u128);

/// What a function for the key of a cache returns.
#[diagnostic::on_unimplemented(
    message = "the key of a `cache` cannot be a `{Self}`",
    label = "returns a `{Self}`",
    note = "the function is no `async fn`, and returns what tells two inputs apart: anything with `Serialize`, such as a `String` or a \
            tuple"
)]
pub trait TellsApart {
    /// The key.
    fn input_key(&self) -> Result<InputKey, NodeError>;
}

impl<T: Serialize> TellsApart for T {
    fn input_key(&self) -> Result<InputKey, NodeError> {
        let hash = codec::hash(self);
        hash.map(InputKey)
            .map_err(|error| NodeError::permanent(format!("the key of its `cache` cannot be serialized: {error}")))
    }
}

/// A node and the hash of all it could have seen, or of what was said to tell its inputs apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct CacheKey {
    node: usize,
    input: u128,
}

impl CacheKey {
    /// The key of a task whose node reads this, and says nothing else.
    pub(crate) fn of<S: Values, C>(task: &Task<S, C>, reads: &[Reads]) -> Result<Self, NodeError> {
        let takes_sent = reads.iter().any(|reads| matches!(reads, Reads::Input | Reads::Sent));
        let sent = task.arg.as_ref().filter(|_| takes_sent);
        let sent = sent.map(|arg| codec::hash_encoded(&arg.encode()?)).transpose()?;
        let input = codec::hash(&(task.was_sent(), sent, state_hashes(task, reads)?))?;
        Ok(Self { node: task.run.key.node, input })
    }

    /// The key of a task whose node says this.
    pub(crate) fn said<S: Values, C>(task: &Task<S, C>, InputKey(input): InputKey) -> Self {
        Self { node: task.run.key.node, input }
    }
}

/// A hash of each channel that a node reads; none for a channel without a value.
fn state_hashes<S: Values, C>(task: &Task<S, C>, reads: &[Reads]) -> Result<Vec<Option<u128>>, CodecError> {
    let channels = &task.graph.channels;
    let (mut all, mut read) = (false, Vec::new());
    for reads in reads {
        match reads {
            Reads::Input => all |= !task.was_sent(),
            Reads::State => all = true,
            Reads::Channels(names) => read.extend(names().into_iter().flatten()),
            Reads::Sent | Reads::Nothing => {}
        }
    }
    // A channel that is not found stands under another name in this graph's state: then all may be read.
    all |= read.iter().any(|name| !channels.iter().any(|channel| channel.name == *name));
    let values = channels.iter().enumerate().filter(|(_, channel)| all || read.contains(&&*channel.name));
    let hashes = values.map(|(channel, _)| {
        let Some(value) = task.state().stored(channel) else { return Ok(None) };
        let mut bytes = Vec::new();
        value.encode(&mut bytes)?;
        codec::hash_encoded(&bytes).map(Some)
    });
    hashes.collect()
}

/// What is kept of a result: everything but a command for the parent, which is never kept.
struct CachedResult<S: Values> {
    until: Instant,
    writes: Writes<S>,
    go: Vec<usize>,
    sends: Sends,
}

/// How many results a compiled graph keeps.
const CAPACITY: usize = 10_000;

/// The results that a compiled graph keeps.
pub(crate) struct NodeCache<S: Values>(Mutex<CacheEntries<S>>);

struct CacheEntries<S: Values> {
    kept: HashMap<CacheKey, CachedResult<S>>,
    /// The number of results at which those whose time has passed are dropped.
    crowd: usize,
}

impl<S: Values> Default for NodeCache<S> {
    fn default() -> Self {
        Self(Mutex::new(CacheEntries { kept: HashMap::new(), crowd: 0 }))
    }
}

impl<S: Values> CacheEntries<S> {
    /// Makes room: what is too old goes; if that is too little, the half that would go next. It is as much work as there are
    /// results, and comes again when there are twice as many.
    fn make_room(&mut self, now: Instant) {
        if self.kept.len() < self.crowd {
            return;
        }
        self.kept.retain(|_, kept| kept.until > now);
        if self.kept.len() >= CAPACITY {
            let mut ends: Vec<Instant> = self.kept.values().map(|kept| kept.until).collect();
            let (_, &mut middle, _) = ends.select_nth_unstable(CAPACITY / 2);
            let mut spared = CAPACITY / 2;
            self.kept.retain(|_, kept| {
                let stays = kept.until >= middle && spared > 0;
                spared -= usize::from(stays);
                stays
            });
        }
        self.crowd = (2 * self.kept.len()).clamp(64, CAPACITY);
    }
}

impl<S: Values> NodeCache<S> {
    pub(crate) fn get(&self, key: CacheKey) -> Option<TaskOutcome<S>> {
        let kept = &mut lock(&self.0).kept;
        let found = kept.get(&key)?;
        if found.until <= Instant::now() {
            kept.remove(&key);
            return None;
        }
        let destinations = Destinations { go: found.go.clone(), sends: found.sends.clone(), parent: None };
        Some(TaskOutcome { writes: found.writes.clone(), destinations: Some(Box::new(destinations)), by: By::Cache })
    }

    pub(crate) fn put(&self, key: CacheKey, ttl: Duration, done: &TaskOutcome<S>) {
        let now = Instant::now();
        let Some(until) = now.checked_add(ttl).filter(|_| !done.is_for_parent()) else { return };
        let mut results = lock(&self.0);
        results.make_room(now);
        let (go, sends) = done
            .destinations
            .as_ref()
            .map(|destinations| (destinations.go.clone(), destinations.sends.clone()))
            .unwrap_or_default();
        results.kept.insert(key, CachedResult { until, writes: done.writes.clone(), go, sends });
    }

    pub(crate) fn clear(&self) {
        lock(&self.0).kept.clear();
    }
}
