//! The durable side of a run of one graph: makes a checkpoint of each step.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::{Map, Value};
use uuid::Uuid;

use crate::channel::ChannelSpec;
use crate::checkpoint::scratch::Scratch;
use crate::checkpoint::{
    ChannelBlob, Checkpoint, CodecError, DeltaChain, NextTasks, SaverError, Schema, Since, Source, WriteRecord, delta,
};
use crate::engine::durable::clock::Clock;
use crate::engine::durable::delta::{Size, load_chain};
use crate::engine::durable::load::Known;
use crate::engine::durable::packed::pack_writes;
use crate::engine::log::task_log::TaskLog;
use crate::engine::program::Program;
use crate::engine::step::{Changes, Fresh};
use crate::error::RunError;
use crate::policy::StepPolicy;
use crate::state::{ChannelWrite, Values, Writes};

/// The channel of the engine's own that holds an input until it is applied.
pub(in crate::engine) const START: &str = "__start__";
/// The channel of the engine's own that holds what a subgraph hands back.
pub(in crate::engine) const RETURNED: &str = "__returned__";

/// The durable side of a run of one graph. Ids of checkpoints rise within a thread and namespace, also across processes.
pub(crate) struct Journal {
    pub(crate) log: Arc<TaskLog>,
    graph: String,
    /// The state's channels, then the engine's own.
    channels: Arc<[Arc<str>]>,
    /// The state's channels.
    specs: Arc<[ChannelSpec]>,
    versions: Vec<Uuid>,
    sizes: Vec<Size>,
    /// The latest checkpoint: the one that the next step starts from.
    pub(crate) base: Option<Uuid>,
    /// The one before it.
    pub(crate) before: Option<Uuid>,
    newest: Option<Uuid>,
    schema: Arc<Schema>,
    metadata: Arc<Map<String, Value>>,
    pub(crate) parents: Arc<BTreeMap<String, Uuid>>,
    clock: Clock,
    /// The checkpoint that is stored when the run ends, if none is stored before.
    buffered: Option<Buffered>,
    scratch: Scratch,
    /// See [`Program::readable`].
    readable: Arc<[AtomicBool]>,
    /// Of a subgraph that keeps its state: the log of the graph around it, and the last part of its namespace there.
    keeper: Option<(Arc<TaskLog>, String)>,
    /// What was known of the thread in memory when it was taken up, if its conversations may be kept there.
    pub(crate) recalled: Option<Since>,
}

struct Buffered {
    checkpoint: Box<Checkpoint>,
    pieces: Vec<ChannelBlob>,
    /// The parts added since to channels of which the whole value is kept.
    tails: Vec<(usize, Vec<u8>)>,
}

impl Drop for Journal {
    /// A call that was cut off has stored nothing, and takes no letter.
    fn drop(&mut self) {
        self.log.forget();
    }
}

/// The metadata of a step, for its checkpoint.
pub(crate) struct StepMetadata {
    pub(crate) step: i64,
    pub(crate) source: Source,
    pub(crate) agenda: NextTasks,
}

impl Journal {
    /// Takes the clock of the policy, if it has one.
    pub(crate) fn step_policy(mut self, policy: Option<&dyn StepPolicy>) -> Self {
        self.clock = self.clock.clone().stopped_by(policy, &self.log.namespace);
        self
    }

    pub(crate) fn new<S: Values, C>(
        graph: &Program<S, C>,
        log: Arc<TaskLog>,
        metadata: Arc<Map<String, Value>>,
        parents: Arc<BTreeMap<String, Uuid>>,
        known: Known,
    ) -> Self {
        let own = [START, RETURNED].map(Arc::from);
        let channels: Arc<[Arc<str>]> = graph.channels.iter().map(|spec| Arc::from(&*spec.name)).chain(own).collect();
        let mut journal = Self {
            log,
            graph: graph.plan.graph().to_owned(),
            versions: vec![Uuid::nil(); channels.len()],
            sizes: vec![Size::default(); channels.len()],
            channels,
            specs: graph.channels.clone(),
            base: known.base,
            before: known.before,
            newest: known.newest,
            schema: Arc::new(schema(graph)),
            metadata,
            parents,
            clock: Clock::after(known.newest),
            buffered: None,
            scratch: Scratch::default(),
            readable: graph.readable.clone(),
            keeper: None,
            recalled: None,
        };
        for (name, version, size) in known.versions {
            if let Some(channel) = journal.channels.iter().position(|channel| *channel == name) {
                (journal.versions[channel], journal.sizes[channel]) = (version, size);
            }
        }
        journal
    }

    /// That of a subgraph that keeps its state: the graph around it is told of each checkpoint.
    pub(crate) fn kept_by(mut self, outer: Option<Arc<TaskLog>>, level: &str) -> Self {
        self.keeper = outer.map(|outer| (outer, level.to_owned()));
        self
    }

    /// The graph around this one goes on from this checkpoint, which is about to be stored.
    fn tell_keeper(&self, checkpoint: Uuid) {
        if let Some((outer, level)) = &self.keeper {
            outer.keep(level, checkpoint);
        }
    }

    /// Stores a new input, beside what the state was before it.
    pub(crate) fn input<S: Values>(
        &mut self,
        writes: &Writes<S>,
        state: &S,
        changes: &mut Changes,
        metadata: StepMetadata,
    ) -> Result<Option<WriteRecord>, RunError> {
        let id = self.clock.id(metadata.step);
        let mut pieces = self.pieces(id, state, changes, 1)?;
        pieces.push(self.start(id, writes)?);
        Ok(self.made(id, metadata, pieces))
    }

    /// An input, as a whole.
    fn start<S: Values>(&mut self, id: Uuid, writes: &Writes<S>) -> Result<ChannelBlob, RunError> {
        let channel = self.channels.len() - 2;
        let specs = &self.specs;
        let packed = self.scratch.bytes(|bytes| pack_writes(specs, writes.iter(), bytes).map(drop));
        let bytes = packed.map_err(|error| self.unfit("the input", &error))?;
        self.versions[channel] = id;
        Ok(ChannelBlob { channel, base: None, bytes })
    }

    /// The checkpoint of a step that has been applied.
    pub(crate) fn step<S: Values>(
        &mut self,
        state: &S,
        changes: &mut Changes,
        (input, returned): (Option<&Writes<S>>, &mut Fresh<S::Write>),
        metadata: StepMetadata,
    ) -> Result<Option<WriteRecord>, RunError> {
        let id = self.clock.id(metadata.step);
        let more = usize::from(input.is_some()) + usize::from(!returned.writes.is_empty());
        let mut pieces = self.pieces(id, state, changes, more)?;
        if let Some(input) = input {
            // A copy has the input for itself: the one that it is a copy of may only refer to it.
            pieces.push(self.start(id, input)?);
        } else {
            // An input has been applied with the step that follows it.
            let start = self.channels.len() - 2;
            self.versions[start] = Uuid::nil();
        }
        if !returned.writes.is_empty() {
            match self.returned(id, returned) {
                Ok(piece) => pieces.push(piece),
                Err(error) => return Err(self.unfit("what a subgraph returns", &error)),
            }
        }
        Ok(self.made(id, metadata, pieces))
    }

    /// The stored forms of the channels that changed, with room for so many more: what a saver in memory keeps should be no larger than it is.
    fn pieces<S: Values>(
        &mut self,
        id: Uuid,
        state: &S,
        changes: &mut Changes,
        more: usize,
    ) -> Result<Vec<ChannelBlob>, RunError> {
        if let Some((channel, error)) = changes.error.take() {
            return Err(self.unfit(&format!("what was written to channel `{}`", self.channels[channel]), &error));
        }
        let mut pieces = Vec::with_capacity(changes.changed.len() + more);
        for &channel in &changes.changed {
            if self.versions[channel] == id {
                continue;
            }
            match self.piece(id, state, changes, channel) {
                Ok(piece) => pieces.extend(piece),
                Err(error) => return Err(self.unfit(&format!("channel `{}`", self.channels[channel]), &error)),
            }
        }
        changes.clear();
        Ok(pieces)
    }

    /// What a channel is stored as: as a whole, or what was added; nothing if it has no value.
    fn piece<S: Values>(
        &mut self,
        id: Uuid,
        state: &S,
        changes: &Changes,
        channel: usize,
    ) -> Result<Option<ChannelBlob>, CodecError> {
        let Some(value) = state.stored(channel) else {
            self.versions[channel] = Uuid::nil();
            return Ok(None);
        };
        let base = self.versions[channel];
        let parts = || changes.parts.iter().filter(|part| part.channel == channel);
        let whole = base.is_nil() || self.sizes[channel].wants_whole() || parts().any(|part| part.overwrite);
        self.versions[channel] = id;
        if let Some(rule) = delta::grows(&self.specs[channel]).filter(|_| !whole && parts().next().is_some()) {
            let bytes = delta::pack(&rule, parts().map(|part| &part.bytes));
            let size = &mut self.sizes[channel];
            (size.parts, size.bytes) = (size.parts + 1, size.bytes + bytes.len());
            return Ok(Some(ChannelBlob { channel, base: Some(base), bytes }));
        }
        let bytes = self.scratch.bytes(|bytes| value.encode(bytes))?;
        if cfg!(debug_assertions) || !self.readable[channel].load(Ordering::Relaxed) {
            value.check_readable(&bytes)?;
            self.readable[channel].store(true, Ordering::Relaxed);
        }
        self.sizes[channel] = Size { bytes: bytes.len(), ..Size::default() };
        Ok(Some(ChannelBlob { channel, base: None, bytes }))
    }

    /// What a subgraph has written, which it hands back when it ends: what was added, or all of it.
    fn returned<W: ChannelWrite>(&mut self, id: Uuid, fresh: &mut Fresh<W>) -> Result<ChannelBlob, CodecError> {
        let channel = self.channels.len() - 1;
        let (specs, writes, sizes) = (&self.specs, &fresh.writes, &mut fresh.sizes);
        let bytes =
            self.scratch.bytes(|bytes| pack_writes(specs, writes.iter(), bytes).map(|packed| *sizes = packed))?;
        let base = Some(self.versions[channel]).filter(|version| !version.is_nil() && !fresh.whole);
        self.versions[channel] = id;
        Ok(ChannelBlob { channel, base, bytes })
    }

    /// The record of a checkpoint. None if it is kept until the run ends.
    #[inline]
    fn made(
        &mut self,
        id: Uuid,
        StepMetadata { step, source, mut agenda }: StepMetadata,
        pieces: Vec<ChannelBlob>,
    ) -> Option<WriteRecord> {
        agenda.kept = self.log.kept();
        let checkpoint = Box::new(Checkpoint {
            id,
            parent: self.base,
            step,
            source,
            channels: self.channels.clone(),
            versions: self.versions.as_slice().into(),
            agenda,
            schema: self.schema.clone(),
            metadata: self.metadata.clone(),
            parents: self.parents.clone(),
        });
        self.before = self.base.replace(id);
        if self.log.holds() {
            self.hold(checkpoint, pieces);
            return None;
        }
        self.tell_keeper(id);
        let namespace = self.log.namespace.clone();
        Some(WriteRecord::Checkpoint { namespace, checkpoint, pieces })
    }

    /// Keeps a checkpoint until the run ends; it takes the place of the one that was kept before.
    fn hold(&mut self, mut checkpoint: Box<Checkpoint>, pieces: Vec<ChannelBlob>) {
        // What tasks had done of the step before is part of it now.
        self.log.settle();
        let Some(mut held) = self.buffered.take() else {
            self.buffered = Some(Buffered { checkpoint, pieces, tails: Vec::new() });
            return;
        };
        checkpoint.parent = held.checkpoint.parent;
        for piece in pieces {
            held.put(piece, self.channels.len() - 1);
        }
        held.pieces.retain(|piece| !checkpoint.versions[piece.channel].is_nil());
        for piece in &held.pieces {
            self.versions[piece.channel] = checkpoint.id;
        }
        checkpoint.versions = self.versions.as_slice().into();
        self.buffered = Some(Buffered { checkpoint, ..held });
    }

    /// Takes the checkpoint that was kept for the end of the run.
    pub(crate) fn take_held<S: Values>(&mut self, initial: impl Fn() -> S) -> Result<Vec<WriteRecord>, RunError> {
        let mut records = Vec::new();
        if let Some(Buffered { checkpoint, mut pieces, tails }) = self.buffered.take() {
            for (channel, tail) in tails {
                let piece = pieces.iter_mut().find(|piece| piece.channel == channel);
                let whole = piece.map(|piece| lengthen(&mut initial(), piece, tail));
                let name = &self.channels[channel];
                whole.transpose().map_err(|error| self.unfit(&format!("channel `{name}`"), &error))?;
            }
            self.tell_keeper(checkpoint.id);
            let namespace = self.log.namespace.clone();
            records.push(WriteRecord::Checkpoint { namespace, checkpoint, pieces });
        }
        records.extend(self.log.take_held().into_iter().map(|writes| self.log.record(writes)));
        Ok(records)
    }

    /// The channels of the state in their order, as the last checkpoint has them.
    pub(crate) fn stored(&self) -> impl Iterator<Item = (&Arc<str>, Uuid, Size)> {
        let own = self.channels.len() - 2;
        let versions = self.versions.iter().zip(&self.sizes);
        self.channels[..own].iter().zip(versions).map(|(name, (version, size))| (name, *version, *size))
    }

    /// Whether the thread has no newer checkpoint than this one.
    pub(crate) fn is_newest(&self, id: Uuid) -> bool {
        self.newest.is_none_or(|newest| newest <= id)
    }

    pub(crate) fn saver(&self, error: SaverError) -> RunError {
        RunError::Saver { graph: self.graph.clone(), error }
    }

    pub(crate) fn unfit(&self, what: &str, error: &CodecError) -> RunError {
        RunError::Encode { graph: self.graph.clone(), what: what.to_owned(), reason: error.to_string() }
    }
}

impl Buffered {
    /// Takes in what a later step stores of a channel. `returned` is the channel of what a subgraph hands back: a list of
    /// writes, of which the whole is no value either but only the writes before.
    fn put(&mut self, piece: ChannelBlob, returned: usize) {
        // The rule is stored only once.
        let added = || {
            if piece.channel == returned { piece.bytes.get(1..).unwrap_or_default() } else { delta::tail(&piece.bytes) }
        };
        let old = self.pieces.iter_mut().find(|old| old.channel == piece.channel);
        match (old, piece.base) {
            (Some(old), Some(_)) if old.base.is_some() || piece.channel == returned => {
                old.bytes.extend_from_slice(added());
            }
            (Some(_), Some(_)) => match self.tails.iter_mut().find(|(channel, _)| *channel == piece.channel) {
                Some((_, tail)) => tail.extend_from_slice(added()),
                None => self.tails.push((piece.channel, piece.bytes)),
            },
            (Some(old), None) => {
                self.tails.retain(|(channel, _)| *channel != piece.channel);
                *old = piece;
            }
            (None, _) => self.pieces.push(piece),
        }
    }
}

/// Makes a whole value of one and what was added to it.
fn lengthen<S: Values>(state: &mut S, piece: &mut ChannelBlob, tail: Vec<u8>) -> Result<(), CodecError> {
    let chain = DeltaChain { full: Some(std::mem::take(&mut piece.bytes)), deltas: vec![tail] };
    load_chain(state, piece.channel, &chain)?;
    if let Some(value) = state.stored(piece.channel) {
        value.encode(&mut piece.bytes)?;
    }
    Ok(())
}

/// Which program writes the checkpoints of a graph.
pub(in crate::engine) fn schema<S: Values, C>(graph: &Program<S, C>) -> Schema {
    Schema::new(graph.plan.graph(), S::VERSION, S::FINGERPRINT)
}
