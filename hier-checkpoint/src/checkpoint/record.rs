//! Stored records: checkpoints, values of channels, writes of tasks.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use uuid::Uuid;

use super::error::SaverError;
use super::names::Names;

/// The state of a thread between two supersteps, without the values of its channels.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Checkpoint {
    /// The id: a UUID of version 6, greater than those of all earlier checkpoints of the thread and namespace.
    pub id: Uuid,
    /// The checkpoint that this one follows.
    pub parent: Option<Uuid>,
    /// The superstep: −1 for the first input, 0 once it is applied, 1 after the first nodes.
    pub step: i64,
    /// The kind of event that made it.
    pub source: Source,
    /// The names of the state's channels (and of the engine's own, which start with `__`).
    pub channels: Arc<[Arc<str>]>,
    /// For each of these channels the id of the checkpoint that stored its present value; nil if it has none.
    pub versions: Arc<[Uuid]>,
    /// The tasks of the next step.
    pub agenda: NextTasks,
    /// The program that wrote the checkpoint: its graph, and the version and fingerprint of its state.
    pub schema: Arc<Schema>,
    /// The metadata of the run's configuration, and its `run_id`. Filters compare it, see
    /// [`ListQuery`](super::ListQuery).
    pub metadata: Arc<Map<String, Value>>,
    /// For each graph around this one its namespace and the id of its checkpoint.
    pub parents: Arc<BTreeMap<String, Uuid>>,
}

impl Checkpoint {
    /// Creates a checkpoint with these channels. No channel has a value, and no node is to run. The caller sets the other
    /// fields.
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

/// The program that wrote a checkpoint.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Schema {
    /// The graph.
    pub graph: String,
    /// The version of the state: `#[state(version = …)]`.
    pub version: u32,
    /// The fingerprint of the state's channels. Stored values carry the rules that they are read by, so another fingerprint is
    /// not an error. Values that are kept in memory between runs are used only by a state with the same fingerprint.
    pub fingerprint: u64,
    /// The names of the secret channels, whose values no tool shows.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub secrets: Vec<String>,
}

impl Schema {
    /// Creates the description from the graph's name, the version of its state, and the fingerprint of the state's channels.
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

/// The kind of event that made a checkpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Source {
    /// A new input.
    Input,
    /// A superstep.
    Loop,
    /// `update_state`.
    Update,
    /// A copy of another checkpoint, from which a run can continue on another branch.
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

/// The tasks of the next step. Nodes go by name.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct NextTasks {
    /// True if the input was stored and is not yet applied.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub start: bool,
    /// True if that input came from outside the graph's runs. The graph is entered with it when it is applied.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub unentered: bool,
    /// Nodes that edges have set off, in order of their names.
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    pub ready: Names,
    /// The Sends, in order.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub sends: Vec<SendRecord>,
    /// Deferred nodes that wait until nothing else is left.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub waiting: Vec<Arc<str>>,
    /// Deferred nodes that need wait no longer.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub released: Vec<Arc<str>>,
    /// Joins for which some of their sources have run.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub joins: Vec<JoinRecord>,
    /// Nodes of `ready` that several edges have set off at once. One of these edges was a join.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tied: Vec<Arc<str>>,
    /// The node that ran last.
    #[serde(skip_serializing_if = "LastRan::is_nothing")]
    pub last: LastRan,
    /// The checkpoints of subgraphs that keep their state between calls, as this branch of the history has them. None if
    /// the graph has no such subgraph.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kept: Option<Arc<Kept>>,
}

/// The checkpoint from which a subgraph continues that keeps its state, by the last part of its namespace.
pub type Kept = BTreeMap<Arc<str>, Uuid>;

/// A task that a Send starts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct SendRecord {
    /// The node.
    pub node: Arc<str>,
    /// The payload, encoded.
    #[serde(with = "serde_bytes")]
    pub payload: Vec<u8>,
}

impl SendRecord {
    /// Creates a task of this node, with the encoded payload.
    pub fn new(node: impl Into<Arc<str>>, payload: Vec<u8>) -> Self {
        Self { node: node.into(), payload }
    }
}

/// The progress of a join.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct JoinRecord {
    /// The join, by the name of its trigger: `join:a+b:target`.
    pub join: Arc<str>,
    /// The sources that have run.
    pub seen: Vec<Arc<str>>,
    /// True if the target was deferred and has been released.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub released: bool,
}

impl JoinRecord {
    /// Creates the record of a join whose sources `seen` have run.
    pub fn new(join: impl Into<Arc<str>>, seen: Vec<Arc<str>>, released: bool) -> Self {
        Self { join: join.into(), seen, released }
    }
}

/// The node that ran last. An update without `as_node` is made as this node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LastRan {
    /// No node has run.
    #[default]
    Nothing,
    /// START.
    Start,
    /// This one.
    Node(Arc<str>),
    /// Several in one step; which is not known.
    Several,
    /// These in one step, or one that several edges have set off at once: which ran last is ambiguous.
    Among(Vec<Arc<str>>),
}

impl LastRan {
    fn is_nothing(&self) -> bool {
        *self == Self::Nothing
    }
}

/// A channel's value as one checkpoint brings it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChannelBlob {
    /// The channel: an index into [`Checkpoint::channels`].
    pub channel: usize,
    /// The version to which the bytes are an addition. None if they are the whole value.
    pub base: Option<Uuid>,
    /// The encoded value or addition.
    #[serde(with = "serde_bytes")]
    pub bytes: Vec<u8>,
}

/// A read value of a channel: a whole value and later additions, oldest first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeltaChain {
    /// The whole value. None only if it is missing from the store, which the engine reports as damage.
    pub full: Option<Vec<u8>>,
    /// The values added since, oldest first.
    pub deltas: Vec<Vec<u8>>,
}

/// Something to store.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum WriteRecord {
    /// A checkpoint with the values that it brings.
    Checkpoint {
        /// The namespace.
        namespace: Arc<str>,
        /// The checkpoint.
        checkpoint: Box<Checkpoint>,
        /// The values of the channels that changed: their version is the checkpoint's id.
        pieces: Vec<ChannelBlob>,
    },
    /// Writes of a task.
    Writes {
        /// The namespace.
        namespace: Arc<str>,
        /// The writes.
        writes: TaskWrites,
    },
}

/// Checks a record, for savers. Each channel needs one version. Each value must be of one of the checkpoint's channels,
/// and may only add to an older version.
pub fn check(record: &WriteRecord) -> Result<(), SaverError> {
    let WriteRecord::Checkpoint { checkpoint, pieces, .. } = record else { return Ok(()) };
    let channels = checkpoint.channels.len();
    if checkpoint.versions.len() != channels {
        let reason = format!("{channels} channels and {} versions", checkpoint.versions.len());
        return Err(SaverError::Invalid(format!("checkpoint `{}` has {reason}: give each channel one", checkpoint.id)));
    }
    for piece in pieces {
        if piece.channel >= channels {
            let reason = format!("a value for channel {} of {channels}", piece.channel);
            return Err(SaverError::Invalid(format!("checkpoint `{}` has {reason}", checkpoint.id)));
        }
        // Chains that only lead backwards end.
        if piece.base.is_some_and(|base| base >= checkpoint.id) {
            let name = &checkpoint.channels[piece.channel];
            let reason = format!("adds to a version of channel `{name}` that is not older than itself");
            return Err(SaverError::Invalid(format!("checkpoint `{}` {reason}", checkpoint.id)));
        }
    }
    Ok(())
}

/// Returns the values that must exist before the record is stored: the channel, by its index, and the version. Each is one that the
/// checkpoint names and does not bring itself, or one that a piece of it adds to.
///
/// A saver refuses a record if one of these values is neither stored nor part of an earlier record of the same commit
/// ([`SaverError::Gone`]). A reader of the checkpoint would miss that value.
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

/// Returns true if a checkpoint builds only on values of its parent, whose channel versions are `parent`. Then the values
/// that [`builds_on`] lists exist if the parent is stored.
pub fn builds_only_on(parent: &[Uuid], checkpoint: &Checkpoint, pieces: &[ChannelBlob]) -> bool {
    let brings = |channel| pieces.iter().any(|piece| piece.channel == channel);
    let mut versions = checkpoint.versions.iter().zip(parent).enumerate();
    versions.all(|(channel, (version, known))| {
        version == known || version.is_nil() || (*version == checkpoint.id && brings(channel))
    }) && pieces.iter().all(|piece| piece.base.is_none_or(|base| parent.get(piece.channel) == Some(&base)))
}

/// The writes of a task, stored with the checkpoint from which its step started.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskWrites {
    /// The checkpoint.
    pub checkpoint: Uuid,
    /// The task; nil for what a caller's command wrote.
    pub task: Uuid,
    /// The place of the task in the order in which writes are applied.
    pub path: Arc<str>,
    /// The writes.
    pub writes: Vec<PendingWrite>,
}

/// One write of a task.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PendingWrite {
    /// Its place among the task's writes. Places below 0 have special meanings, see [`slot`].
    pub slot: i32,
    /// The channel, or a name of the engine's that starts with `__`.
    pub channel: Arc<str>,
    /// The value, encoded.
    #[serde(with = "serde_bytes")]
    pub value: Vec<u8>,
}

/// A stored answer to a question of a task.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AnswerRecord {
    /// The identity of the question: the hash of its key or value.
    pub to: String,
    /// The answer.
    pub value: Value,
}

/// Slots with a special meaning. A write to such a slot replaces the previous one. The numbers are LangGraph's.
pub mod slot {
    /// The failure of the task.
    pub const ERROR: i32 = -1;
    /// The questions of the task.
    pub const INTERRUPT: i32 = -3;
    /// The answer for the first question.
    pub const RESUME: i32 = -4;

    /// Returns the slot of the answer to a task's question with this number, from 0.
    pub const fn answer(question: i32) -> i32 {
        -1000 - question
    }

    /// Returns the number of the question whose answer is in this slot.
    pub fn answered(slot: i32) -> Option<usize> {
        // The lower half is for steps.
        usize::try_from((-1000_i32).checked_sub(slot)?).ok().filter(|_| slot > i32::MIN / 2)
    }

    /// Returns the slot of the result of a task's durable step with this number, from 0. It is below all answers.
    pub const fn step(number: i32) -> i32 {
        i32::MIN + number
    }
}

/// A read checkpoint.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Saved {
    /// The checkpoint.
    pub checkpoint: Checkpoint,
    /// The values of the channels that have one, by their index in [`Checkpoint::channels`].
    pub values: Vec<(usize, DeltaChain)>,
    /// The writes of the tasks of its step, in the order of (path, task, slot).
    pub writes: Vec<TaskWrites>,
}

impl Saved {
    /// Creates a checkpoint with its values and the writes of its tasks.
    pub fn new(checkpoint: Checkpoint, values: Vec<(usize, DeltaChain)>, writes: Vec<TaskWrites>) -> Self {
        Self { checkpoint, values, writes }
    }
}
