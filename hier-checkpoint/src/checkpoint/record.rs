//! Stored records: checkpoints, values of channels, writes of tasks.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use uuid::Uuid;

use super::error::SaverError;
use super::next_tasks::NextTasks;

/// The state of a thread between two supersteps, without the values of its channels.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Checkpoint {
    /// The id: a UUID of version 6. It is greater than the ids of all earlier checkpoints of the thread and namespace.
    pub id: Uuid,
    /// The id of the previous checkpoint. `None` if there is none, or if it was deleted.
    pub parent: Option<Uuid>,
    /// The number of the superstep that ended with this checkpoint. The checkpoint that stores the first input has −1,
    /// and the checkpoint after this input was applied has 0.
    pub step: i64,
    /// The kind of operation that made the checkpoint.
    pub source: Source,
    /// The names of the state's channels, and of the engine's own channels, which start with `__`.
    pub channels: Arc<[Arc<str>]>,
    /// The version of each channel: the id of the checkpoint that stored the current value, or nil for a channel
    /// without a value.
    pub versions: Arc<[Uuid]>,
    /// The tasks of the next superstep.
    pub agenda: NextTasks,
    /// The graph that wrote the checkpoint, with the version and the fingerprint of its state.
    pub schema: Arc<Schema>,
    /// The metadata of the run, including its `run_id`. [`ListQuery::filter`](super::ListQuery) selects checkpoints by
    /// their metadata.
    pub metadata: Arc<Map<String, Value>>,
    /// For a checkpoint of a subgraph: the ids of the checkpoints of all outer graphs at which the call of the subgraph
    /// began. The keys are the namespaces of the outer graphs. Empty for the root graph.
    pub parents: Arc<BTreeMap<String, Uuid>>,
}

impl Checkpoint {
    /// Creates a checkpoint with these channels, without values and next tasks. Set the other fields afterwards.
    pub fn new(id: Uuid, step: i64, source: Source, channels: Arc<[Arc<str>]>) -> Self {
        Self {
            id,
            parent: None,
            step,
            source,
            versions: channels.iter().map(|_| Uuid::nil()).collect(),
            channels,
            agenda: NextTasks::default(),
            schema: Arc::default(),
            metadata: Arc::default(),
            parents: Arc::default(),
        }
    }
}

/// The graph and the state that wrote a checkpoint.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Schema {
    /// The name of the graph.
    pub graph: String,
    /// The version of the state: `#[state(version = …)]`.
    pub version: u32,
    /// The fingerprint of the state's channels. A program whose state has another fingerprint can read the stored
    /// values, but does not use [conversations](super::Conversations) in memory.
    pub fingerprint: u64,
    /// The names of the secret channels. No tool shows their values.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub secrets: Vec<String>,
}

impl Schema {
    /// Creates the description of a graph with this name, state version and state fingerprint.
    pub fn new(graph: impl Into<String>, version: u32, fingerprint: u64) -> Self {
        Self { graph: graph.into(), version, fingerprint, secrets: Vec::new() }
    }

    /// Sets the names of the secret channels.
    #[must_use]
    pub fn with_secrets(self, secrets: Vec<String>) -> Self {
        Self { secrets, ..self }
    }

    /// Returns true if the channel was secret for the program that wrote the checkpoint.
    pub fn hides(&self, channel: &str) -> bool {
        self.secrets.iter().any(|secret| secret == channel)
    }
}

/// The kind of operation that made a checkpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Source {
    /// A run received a new input.
    Input,
    /// A superstep ended.
    Loop,
    /// A program updated the state with `update_state`.
    Update,
    /// A checkpoint was copied. The copy starts another branch of the history.
    Fork,
}

impl Source {
    /// Returns the name: `input`, `loop`, `update` or `fork`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Input => "input",
            Self::Loop => "loop",
            Self::Update => "update",
            Self::Fork => "fork",
        }
    }
}

/// A value that a checkpoint stores for a channel: the whole value, or an addition to an earlier version of the value.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChannelBlob {
    /// The index of the channel in [`Checkpoint::channels`].
    pub channel: usize,
    /// The version of the value to which `bytes` is an addition. `None` if `bytes` is the whole value.
    pub base: Option<Uuid>,
    /// The encoded value or addition.
    #[serde(with = "serde_bytes")]
    pub bytes: Vec<u8>,
}

/// The stored value of a channel: a whole value and later additions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeltaChain {
    /// The whole value. `None` if the saver does not find the value. The engine then reports that the thread is
    /// damaged.
    pub full: Option<Vec<u8>>,
    /// The later additions, oldest first.
    pub deltas: Vec<Vec<u8>>,
}

/// A record that a saver stores.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum WriteRecord {
    /// A checkpoint and the values that changed.
    Checkpoint {
        /// The namespace.
        namespace: Arc<str>,
        /// The checkpoint.
        checkpoint: Box<Checkpoint>,
        /// The values of the changed channels. Their version is the id of the checkpoint.
        pieces: Vec<ChannelBlob>,
    },
    /// The writes of a task.
    Writes {
        /// The namespace.
        namespace: Arc<str>,
        /// The writes.
        writes: TaskWrites,
    },
}

/// Checks a record before a saver stores it. In a checkpoint record, each channel must have one version, each value
/// must belong to a channel of the checkpoint, and additions must refer to older versions. Otherwise, the check fails
/// with [`SaverError::Invalid`]. It accepts all [`WriteRecord::Writes`] records.
pub fn check(record: &WriteRecord) -> Result<(), SaverError> {
    let WriteRecord::Checkpoint { checkpoint, pieces, .. } = record else { return Ok(()) };
    let channels = checkpoint.channels.len();
    if checkpoint.versions.len() != channels {
        let reason = format!("{channels} channels and {} versions", checkpoint.versions.len());
        return Err(SaverError::Invalid(format!("checkpoint `{}` has {reason}: give each channel one", checkpoint.id)));
    }
    for piece in pieces {
        if piece.channel >= channels {
            let reason = format!("a value for channel index {}, but only {channels} channels", piece.channel);
            return Err(SaverError::Invalid(format!("checkpoint `{}` has {reason}", checkpoint.id)));
        }
        // If every addition refers to an older version, each chain of additions ends.
        if piece.base.is_some_and(|base| base >= checkpoint.id) {
            let name = &checkpoint.channels[piece.channel];
            let reason = format!("adds to a version of channel `{name}` that is not older than itself");
            return Err(SaverError::Invalid(format!("checkpoint `{}` {reason}", checkpoint.id)));
        }
    }
    Ok(())
}

/// Returns the values that must exist before the record is stored, as pairs of channel index and version. These are the
/// values that the checkpoint names but does not store, and the values to which it stores additions.
///
/// If one of these values is neither stored nor part of an earlier record of the same commit, the saver must refuse the
/// record with [`SaverError::Gone`].
pub fn builds_on(record: &WriteRecord) -> impl Iterator<Item = (usize, Uuid)> {
    let (checkpoint, pieces) = match record {
        WriteRecord::Checkpoint { checkpoint, pieces, .. } => (Some(checkpoint), pieces.as_slice()),
        WriteRecord::Writes { .. } => (None, [].as_slice()),
    };
    let named = checkpoint.into_iter().flat_map(move |checkpoint| {
        let brought =
            move |channel, version| version == checkpoint.id && pieces.iter().any(|piece| piece.channel == channel);
        let versions = checkpoint.versions.iter().copied().enumerate();
        versions.filter(move |(channel, version)| !version.is_nil() && !brought(*channel, *version))
    });
    named.chain(pieces.iter().filter_map(|piece| Some((piece.channel, piece.base?))))
}

/// Returns true if a checkpoint depends only on values of its parent. The argument `parent` has the versions of the
/// parent's channels. If the result is true and the parent is stored, all values that [`builds_on`] lists exist.
pub fn builds_only_on(parent: &[Uuid], checkpoint: &Checkpoint, pieces: &[ChannelBlob]) -> bool {
    let brings = |channel| pieces.iter().any(|piece| piece.channel == channel);
    let mut versions = checkpoint.versions.iter().zip(parent).enumerate();
    versions.all(|(channel, (version, known))| {
        version == known || version.is_nil() || (*version == checkpoint.id && brings(channel))
    }) && pieces.iter().all(|piece| piece.base.is_none_or(|base| parent.get(piece.channel) == Some(&base)))
}

/// The writes of a task. A saver stores them with the checkpoint before the superstep of the task.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskWrites {
    /// The id of the checkpoint before the superstep of the task.
    pub checkpoint: Uuid,
    /// The id of the task. Nil for the writes of a command that a caller gave as input.
    pub task: Uuid,
    /// The sort key of the task among the tasks of the superstep. The engine applies the writes of the tasks in the
    /// order of these keys.
    pub path: Arc<str>,
    /// The writes.
    pub writes: Vec<PendingWrite>,
}

/// A write of a task.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PendingWrite {
    /// The number of the write among the writes of its task, from 0. For numbers below 0, see [`slot`].
    pub slot: i32,
    /// The name of the channel, or an internal name that starts with `__`.
    pub channel: Arc<str>,
    /// The encoded value.
    #[serde(with = "serde_bytes")]
    pub value: Vec<u8>,
}

/// A stored answer to the question of an interrupt.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AnswerRecord {
    /// The identity of the question, which is the hash of its key or value.
    pub to: String,
    /// The answer.
    pub value: Value,
}

/// The special slots of a task's writes. Their numbers are below 0. A write to such a slot replaces the previous write.
/// The numbers of `ERROR`, `INTERRUPT` and `RESUME` are those of LangGraph.
pub mod slot {
    /// The error with which the task failed.
    pub const ERROR: i32 = -1;
    /// The questions that the task asked.
    pub const INTERRUPT: i32 = -3;
    /// An answer that does not name a question. The first task that asks receives this answer.
    pub const RESUME: i32 = -4;
    /// For a detached subagent: the number of attempts to continue the subagent from one checkpoint
    /// ([`TaskWrites::checkpoint`](super::TaskWrites)), or the error with which the subagent failed. An attempt counts
    /// until it releases the thread.
    pub const ATTEMPTS: i32 = -5;

    /// Returns the slot for the answer to a task's question. `question` is the number of the question in the task,
    /// counted from 0.
    pub const fn answer(question: i32) -> i32 {
        -1000 - question
    }

    /// Returns the number of the question to which [`answer`] gives this slot. Returns `None` for slots of other kinds,
    /// such as [`RESUME`].
    pub fn answered(slot: i32) -> Option<usize> {
        // The slots in the lower half of `i32` belong to steps.
        usize::try_from((-1000_i32).checked_sub(slot)?).ok().filter(|_| slot > i32::MIN / 2)
    }

    /// Returns the slot for the result of a task's `run.step` call. `number` is the number of the call in the task,
    /// counted from 0. These slots are less than all slots of answers.
    pub const fn step(number: i32) -> i32 {
        i32::MIN + number
    }
}

/// A checkpoint as a saver returns it, with its values and pending writes.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Saved {
    /// The checkpoint.
    pub checkpoint: Checkpoint,
    /// The values of the channels that have a value. The number is the index of the channel in
    /// [`Checkpoint::channels`].
    pub values: Vec<(usize, DeltaChain)>,
    /// The writes of the tasks of the next superstep, sorted by path, then by task and then by slot.
    pub writes: Vec<TaskWrites>,
}

impl Saved {
    /// Creates a checkpoint with its values and pending writes.
    pub fn new(checkpoint: Checkpoint, values: Vec<(usize, DeltaChain)>, writes: Vec<TaskWrites>) -> Self {
        Self { checkpoint, values, writes }
    }
}
