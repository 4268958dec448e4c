//! Decodes a stored graph: its state, its position and the records of its open superstep.

use std::sync::Arc;

use uuid::Uuid;

use crate::checkpoint::{Checkpoint, CodecError, Conversation, DeltaChain, Saved, TaskWrites};
use crate::engine::durable::delta::{Size, load_chain};
use crate::engine::durable::journal::JournalStart;
use crate::engine::durable::names::{RETURNED, START};
use crate::engine::durable::packed::unpack_writes;
use crate::engine::durable::pending::Pending;
use crate::engine::durable::thread_reader::ThreadReader;
use crate::engine::durable::upgrade::{RecordRewriter, SchemaUpgrade, take_migrated};
use crate::engine::step::{Position, StoredChannels};
use crate::error::RunError;
use crate::state::{Values, Writes};

pub(crate) struct LoadRequest<S> {
    pub(crate) saved: Saved,
    /// Conversations in memory. `saved` does not contain their values.
    pub(crate) conversations: Vec<Conversation>,
    /// The greatest checkpoint id of the thread and namespace.
    pub(crate) newest: Option<Uuid>,
    /// Has the values of channels that are not stored.
    pub(crate) initial: S,
    pub(crate) is_child: bool,
}

pub(crate) struct LoadedThread<S: Values> {
    pub(crate) checkpoint: Checkpoint,
    pub(crate) state: S,
    pub(crate) position: Position<S>,
    pub(crate) pending: Pending,
    pub(crate) start: JournalStart,
}

const MIGRATE: &str = "; if the type was changed, raise `#[state(version = …)]` and give it a `migrate`";

pub(crate) fn load<S: Values, C>(
    reader: ThreadReader<'_, S, C>,
    request: LoadRequest<S>,
) -> Result<LoadedThread<S>, RunError> {
    let LoadRequest { saved, conversations, newest, initial, is_child } = request;
    let Saved { checkpoint, values, writes, .. } = saved;
    check_graph(reader, &checkpoint)?;
    check_slots(&writes).map_err(|reason| reader.unfit(reason))?;
    let upgrade = SchemaUpgrade::needed_by(reader, &checkpoint, &values)?;
    let mut loader = ChannelLoader::new(reader, &checkpoint, upgrade.as_ref(), initial);
    for (index, chain) in &values {
        loader.load(*index, chain)?;
    }
    for conversation in conversations {
        loader.put_conversation(conversation);
    }
    if let Some(upgrade) = &upgrade {
        loader.migrate(upgrade, &values)?;
    }
    for send in &checkpoint.agenda.sends {
        loader.rewriter().send(None, send).map_err(|error| reader.unfit(error))?;
    }
    let ChannelLoader { state, versions, input, channels, .. } = loader;
    let position = Position::restore(reader.graph, &checkpoint.agenda, is_child);
    let mut position = position.map_err(|error| reader.unfit(error))?;
    position.restore_input(input);
    position.restore_channels(&reader.graph.channels, channels);
    let pending = Pending::new(writes, &reader.graph.renamed, upgrade);
    let start = JournalStart { base: Some(checkpoint.id), before: checkpoint.parent, newest, versions };
    Ok(LoadedThread { checkpoint, state, position, pending, start })
}

struct ChannelLoader<'a, S: Values, C> {
    reader: ThreadReader<'a, S, C>,
    checkpoint: &'a Checkpoint,
    upgrade: Option<&'a SchemaUpgrade>,
    state: S,
    versions: Vec<(Arc<str>, Uuid, Size)>,
    input: Option<Writes<S>>,
    channels: StoredChannels<S::Write>,
}

impl<'a, S: Values, C> ChannelLoader<'a, S, C> {
    fn new(
        reader: ThreadReader<'a, S, C>,
        checkpoint: &'a Checkpoint,
        upgrade: Option<&'a SchemaUpgrade>,
        state: S,
    ) -> Self {
        let channels = StoredChannels { is_upgraded: upgrade.is_some(), ..StoredChannels::default() };
        Self { reader, checkpoint, upgrade, state, versions: Vec::new(), input: None, channels }
    }

    fn rewriter(&self) -> RecordRewriter<'_, S, C> {
        RecordRewriter { reader: self.reader, state: &self.state, upgrade: self.upgrade }
    }

    fn find(&self, name: &str) -> Option<usize> {
        self.reader.graph.channels.iter().position(|spec| spec.name == *name)
    }

    fn load(&mut self, index: usize, chain: &DeltaChain) -> Result<(), RunError> {
        let Some((name, version)) = self.checkpoint.channels.get(index).zip(self.checkpoint.versions.get(index)) else {
            return Ok(());
        };
        let channel = self.find(name);
        let size = Size::of_chain(chain, channel.map(|channel| &self.reader.graph.channels[channel]));
        self.versions.push((name.clone(), *version, size));
        let reader = self.reader;
        let unfit =
            |error: CodecError| reader.unfit(format!("the value of channel `{name}` does not fit: {error}{MIGRATE}"));
        match &**name {
            START => {
                let input = unpack_writes(&self.rewriter(), chain.full.as_deref().unwrap_or_default());
                self.input = Some(input.map_err(unfit)?.into_iter().collect());
            }
            RETURNED => {
                for packed in chain.full.iter().chain(&chain.deltas) {
                    let mut writes = unpack_writes(&self.rewriter(), packed).map_err(unfit)?;
                    self.channels.returned.append(&mut writes);
                    self.channels.returned_bytes += packed.len();
                }
            }
            // All migrated values are loaded together later.
            _ if self.upgrade.is_some() => {}
            _ => {
                let channel = channel.ok_or_else(|| reader.unfit(missing_channel::<S>(name)))?;
                load_chain(&mut self.state, channel, chain).map_err(unfit)?;
                self.channels.held.push(channel);
            }
        }
        Ok(())
    }

    fn put_conversation(&mut self, conversation: Conversation) {
        let Conversation { channel: name, version, parts, bytes, messages } = conversation;
        if let Some(channel) = self.find(&name) {
            self.state.set_any(channel, &messages);
            self.versions.push((name, version, Size { parts, bytes, is_foreign: false }));
            self.channels.held.push(channel);
        }
    }

    /// Loads the values of an older version of the state. The next checkpoint stores them as whole values.
    fn migrate(&mut self, upgrade: &SchemaUpgrade, values: &[(usize, DeltaChain)]) -> Result<(), RunError> {
        let migrated = upgrade.values(self.reader)?;
        let specs = self.reader.graph.channels.iter().enumerate();
        let is_stored = specs.filter(|(_, spec)| migrated.contains_key(&*spec.name));
        self.channels.migrated = is_stored.map(|(channel, _)| channel).collect();
        self.channels.held.clone_from(&self.channels.migrated);
        let name = |index: usize| self.checkpoint.channels.get(index).map(|name| &**name);
        let stored: Vec<(&str, &DeltaChain)> =
            values.iter().filter_map(|(index, chain)| Some((name(*index)?, chain))).collect();
        take_migrated(self.reader, &mut self.state, upgrade, migrated, &stored)?;
        self.versions.clear();
        Ok(())
    }
}

/// Refuses a checkpoint of another graph.
fn check_graph<S: Values, C>(reader: ThreadReader<'_, S, C>, checkpoint: &Checkpoint) -> Result<(), RunError> {
    let (stored, here) = (&checkpoint.schema.graph, reader.graph.plan.graph());
    if stored == here || reader.graph.renamed.iter().any(|(old, new)| old == stored && new == here) {
        return Ok(());
    }
    Err(reader.unfit(format!("it is a thread of graph `{stored}`: use another thread id, or run that graph")))
}

/// Refuses slots that are so great that later slots could overflow.
fn check_slots(writes: &[TaskWrites]) -> Result<(), String> {
    let slots = writes.iter().flat_map(|task| &task.writes).map(|write| write.slot);
    match slots.max().filter(|slot| *slot > i32::MAX / 2) {
        None => Ok(()),
        Some(slot) => Err(format!(
            "a task has written slot {slot}, which hier never does: the stored data is damaged; restore a backup, or continue from an \
             earlier checkpoint"
        )),
    }
}

fn missing_channel<S: Values>(name: &str) -> String {
    format!(
        "channel `{name}` is stored, but the state no longer has it: raise `#[state(version = {})]` and give it a `migrate` that \
         removes or renames the channel",
        S::VERSION + 1
    )
}
