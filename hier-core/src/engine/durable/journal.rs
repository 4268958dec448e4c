use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Map, Value};
use uuid::Uuid;

use crate::channel::ChannelSpec;
use crate::checkpoint::scratch::Scratch;
use crate::checkpoint::{
    ChannelBlob, Checkpoint, CodecError, DeltaChain, NextTasks, SaverError, Schema, Since, Source, WriteRecord, delta,
};
use crate::engine::durable::clock::IdClock;
use crate::engine::durable::delta::{Size, load_chain};
use crate::engine::durable::names::{RETURNED, START};
use crate::engine::durable::packed::pack_writes;
use crate::engine::durable::segment::last_segment;
use crate::engine::log::task_log::TaskLog;
use crate::engine::program::Program;
use crate::engine::step::{Changes, Returns, Unstored, UnstoredReturns};
use crate::error::RunError;
use crate::policy::StepPolicy;
use crate::state::{ChannelWrite, Values, Writes, encode_readable, secret};

/// The stored versions from which a journal continues.
#[derive(Default)]
pub(crate) struct JournalStart {
    pub(crate) base: Option<Uuid>,
    pub(crate) before: Option<Uuid>,
    /// The greatest checkpoint id of the thread and namespace.
    pub(crate) newest: Option<Uuid>,
    pub(crate) versions: Vec<(Arc<str>, Uuid, Size)>,
}

/// Makes the checkpoints of one graph in a durable run. The ids of checkpoints rise within a thread and namespace, even
/// if several processes write them.
pub(crate) struct Journal {
    pub(crate) log: Arc<TaskLog>,
    graph: String,
    /// The state's channels, then [`START`] and [`RETURNED`].
    channels: Arc<[Arc<str>]>,
    specs: Arc<[ChannelSpec]>,
    versions: Vec<Uuid>,
    sizes: Vec<Size>,
    /// The latest checkpoint, from which the next superstep starts.
    pub(crate) base: Option<Uuid>,
    pub(crate) before: Option<Uuid>,
    schema: Arc<Schema>,
    metadata: Arc<Map<String, Value>>,
    parents: Arc<BTreeMap<String, Uuid>>,
    pub(in crate::engine) clock: IdClock,
    /// The checkpoint that is stored when the run ends.
    held: Option<HeldCheckpoint>,
    scratch: Scratch,
    /// True for each channel whose whole value this journal has encoded and read back.
    readable: Vec<bool>,
    /// The log of the outer graph, if this is a subgraph with checkpoints per thread.
    parent_log: Option<Arc<TaskLog>>,
    /// None if the conversations of the thread are not kept in memory.
    pub(crate) conversations_since: Option<Since>,
}

struct HeldCheckpoint {
    checkpoint: Box<Checkpoint>,
    pieces: Vec<ChannelBlob>,
    /// Parts that later supersteps added to channels whose whole values are held.
    tails: Vec<(usize, Vec<u8>)>,
}

impl Drop for Journal {
    /// A dropped call has stored nothing, so its messages stay in the inbox.
    fn drop(&mut self) {
        self.log.forget();
    }
}

pub(crate) struct StepMetadata {
    pub(crate) step: i64,
    pub(crate) source: Source,
    pub(crate) agenda: NextTasks,
}

impl Journal {
    pub(crate) fn new<S: Values, C>(
        graph: &Program<S, C>,
        log: Arc<TaskLog>,
        metadata: Map<String, Value>,
        parents: Arc<BTreeMap<String, Uuid>>,
        start: JournalStart,
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
            base: start.base,
            before: start.before,
            schema: Arc::new(schema(graph)),
            metadata: Arc::new(metadata),
            parents,
            clock: IdClock::after(start.newest),
            held: None,
            scratch: Scratch::default(),
            readable: vec![false; graph.channels.len()],
            parent_log: None,
            conversations_since: None,
        };
        for (name, version, size) in start.versions {
            if let Some(channel) = journal.channels.iter().position(|channel| *channel == name) {
                (journal.versions[channel], journal.sizes[channel]) = (version, size);
            }
        }
        journal
    }

    /// Uses the clock of the policy, if the policy has a clock.
    pub(crate) fn step_policy(mut self, policy: Option<&dyn StepPolicy>) -> Self {
        self.clock = self.clock.clone().stopped_by(policy, &self.log.namespace);
        self
    }

    /// Keeps the conversations of the thread in memory after the run.
    pub(crate) fn remember_conversations(mut self, since: Option<Since>) -> Self {
        self.conversations_since = since;
        self
    }

    /// Reports each checkpoint to the log of the outer graph, which continues from it.
    pub(crate) fn report_heads_to(mut self, parent_log: Option<Arc<TaskLog>>) -> Self {
        self.parent_log = parent_log;
        self
    }

    fn report_head(&self, checkpoint: Uuid) {
        if let Some(parent_log) = &self.parent_log {
            parent_log.set_head(last_segment(&self.log.namespace), checkpoint);
        }
    }

    /// Makes the checkpoint of a position. Returns `None` if the checkpoint is held until the run ends.
    pub(crate) fn checkpoint<S: Values>(
        &mut self,
        state: &S,
        unstored: Unstored<'_, S>,
        metadata: StepMetadata,
    ) -> Result<Option<WriteRecord>, RunError> {
        let Unstored { input, changes, returned } = unstored;
        let id = self.clock.id(metadata.step);
        let mut fresh = returned.as_deref().map(Returns::unstored).unwrap_or_default();
        let more = usize::from(input.is_some()) + usize::from(!fresh.writes.is_empty());
        let mut pieces = self.pieces(id, state, changes, more)?;
        let start = self.channels.len() - 2;
        match input {
            // A fork stores the whole input, because the original may contain only a reference to it.
            Some(input) => pieces.push(self.input_piece(id, input)?),
            None => self.versions[start] = Uuid::nil(),
        }
        if !fresh.writes.is_empty() {
            let piece = self.returned_piece(id, &mut fresh);
            pieces.push(piece.map_err(|error| self.unfit("what a subgraph returns", &error))?);
        }
        if let Some(returned) = returned {
            returned.mark_stored(&fresh);
        }
        Ok(self.record(id, metadata, pieces))
    }

    fn input_piece<S: Values>(&mut self, id: Uuid, writes: &Writes<S>) -> Result<ChannelBlob, RunError> {
        let channel = self.channels.len() - 2;
        let specs = &self.specs;
        let packed = self.scratch.bytes(|bytes| pack_writes(specs, writes.iter(), bytes).map(drop));
        let bytes = packed.map_err(|error| self.unfit("the input", &error))?;
        self.versions[channel] = id;
        Ok(ChannelBlob { channel, base: None, bytes })
    }

    /// Returns the pieces of the changed channels. The list has capacity for exactly `more` further pieces, because a
    /// saver in memory keeps the list as it is.
    fn pieces<S: Values>(
        &mut self,
        id: Uuid,
        state: &S,
        changes: &mut Changes,
        more: usize,
    ) -> Result<Vec<ChannelBlob>, RunError> {
        if let Some((channel, error)) = changes.error.take() {
            return Err(self.unfit_channel("the write to channel", channel, error));
        }
        let mut pieces = Vec::with_capacity(changes.changed.len() + more);
        for &channel in &changes.changed {
            if self.versions[channel] == id {
                continue;
            }
            match self.piece(id, state, changes, channel) {
                Ok(piece) => pieces.extend(piece),
                Err(error) => return Err(self.unfit_channel("channel", channel, error)),
            }
        }
        changes.clear();
        Ok(pieces)
    }

    /// Returns the stored form of a channel: its value, or the parts that were added to it. Returns `None` if the
    /// channel has no value.
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
        let readable = &mut self.readable[channel];
        let bytes = self.scratch.bytes(|bytes| encode_readable(value, bytes, readable))?;
        self.sizes[channel] = Size { bytes: bytes.len(), ..Size::default() };
        Ok(Some(ChannelBlob { channel, base: None, bytes }))
    }

    /// Returns the writes that a subgraph returns: those since the last checkpoint, or all of them.
    fn returned_piece<W: ChannelWrite>(
        &mut self,
        id: Uuid,
        fresh: &mut UnstoredReturns<W>,
    ) -> Result<ChannelBlob, CodecError> {
        let channel = self.channels.len() - 1;
        let (specs, writes, sizes) = (&self.specs, &fresh.writes, &mut fresh.sizes);
        let bytes =
            self.scratch.bytes(|bytes| pack_writes(specs, writes.iter(), bytes).map(|packed| *sizes = packed))?;
        let base = Some(self.versions[channel]).filter(|version| !version.is_nil() && !fresh.whole);
        self.versions[channel] = id;
        Ok(ChannelBlob { channel, base, bytes })
    }

    #[inline]
    fn record(
        &mut self,
        id: Uuid,
        StepMetadata { step, source, mut agenda }: StepMetadata,
        pieces: Vec<ChannelBlob>,
    ) -> Option<WriteRecord> {
        agenda.kept = self.log.heads();
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
        self.report_head(id);
        let namespace = self.log.namespace.clone();
        Some(WriteRecord::Checkpoint { namespace, checkpoint, pieces })
    }

    /// Holds a checkpoint until the run ends. It replaces the held checkpoint.
    fn hold(&mut self, mut checkpoint: Box<Checkpoint>, pieces: Vec<ChannelBlob>) {
        self.log.drop_applied();
        let Some(mut held) = self.held.take() else {
            self.held = Some(HeldCheckpoint { checkpoint, pieces, tails: Vec::new() });
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
        self.held = Some(HeldCheckpoint { checkpoint, ..held });
    }

    pub(crate) fn take_held<S: Values>(&mut self, initial: impl Fn() -> S) -> Result<Vec<WriteRecord>, RunError> {
        let mut records = Vec::new();
        if let Some(HeldCheckpoint { checkpoint, mut pieces, tails }) = self.held.take() {
            for (channel, tail) in tails {
                let piece = pieces.iter_mut().find(|piece| piece.channel == channel);
                let whole = piece.map(|piece| lengthen(&mut initial(), piece, tail));
                let name = &self.channels[channel];
                whole.transpose().map_err(|error| self.unfit(&format!("channel `{name}`"), &error))?;
            }
            self.report_head(checkpoint.id);
            let namespace = self.log.namespace.clone();
            records.push(WriteRecord::Checkpoint { namespace, checkpoint, pieces });
        }
        records.extend(self.log.take_held().into_iter().map(|writes| self.log.record(writes)));
        Ok(records)
    }

    /// Returns the versions of the state's channels in the last checkpoint, in the order of the channels.
    pub(crate) fn stored(&self) -> impl Iterator<Item = (&Arc<str>, Uuid, Size)> {
        let own = self.channels.len() - 2;
        let versions = self.versions.iter().zip(&self.sizes);
        self.channels[..own].iter().zip(versions).map(|(name, (version, size))| (name, *version, *size))
    }

    pub(crate) fn saver(&self, error: SaverError) -> RunError {
        RunError::Saver { graph: self.graph.clone(), error }
    }

    fn unfit_channel(&self, what: &str, channel: usize, error: CodecError) -> RunError {
        let is_secret = self.specs.get(channel).is_some_and(|spec| spec.secret);
        self.unfit(&format!("{what} `{}`", self.channels[channel]), &secret::unfit(is_secret, error))
    }

    pub(crate) fn unfit(&self, what: &str, error: &CodecError) -> RunError {
        RunError::Encode { graph: self.graph.clone(), what: what.to_owned(), reason: error.to_string() }
    }
}

impl HeldCheckpoint {
    /// Adds the piece of a later superstep. The pieces of [`RETURNED`], whose index is `returned`, are always parts of a list.
    fn put(&mut self, piece: ChannelBlob, returned: usize) {
        // All parts of a channel have the same rule, so the rule is stored only with the first part.
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

/// Merges added parts into a whole value.
fn lengthen<S: Values>(state: &mut S, piece: &mut ChannelBlob, tail: Vec<u8>) -> Result<(), CodecError> {
    let chain = DeltaChain { full: Some(std::mem::take(&mut piece.bytes)), deltas: vec![tail] };
    load_chain(state, piece.channel, &chain)?;
    if let Some(value) = state.stored(piece.channel) {
        encode_readable(value, &mut piece.bytes, &mut true)?;
    }
    Ok(())
}

pub(in crate::engine) fn schema<S: Values, C>(graph: &Program<S, C>) -> Schema {
    let secrets = graph.channels.iter().filter(|channel| channel.secret).map(|channel| channel.name.to_string());
    Schema::new(graph.plan.graph(), S::VERSION, S::FINGERPRINT).with_secrets(secrets.collect())
}
