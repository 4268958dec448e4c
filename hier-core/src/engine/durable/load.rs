//! Takes up a thread: the state, what is to run next, what the tasks of the open step have done.

use std::sync::Arc;

use serde_json::Value;
use uuid::Uuid;

use crate::checkpoint::{
    Checkpoint, CodecError, Conversation, DeltaChain, PendingWrite, Saved, SaverError, TaskWrites, codec, slot,
};
use crate::engine::attempt::stored::{RESUME, ROUTING, RoutingRecord};
use crate::engine::durable::delta::{Size, load_chain};
use crate::engine::durable::journal::{RETURNED, START};
use crate::engine::durable::packed::unpack_writes;
use crate::engine::durable::pending::Pending;
use crate::engine::durable::upgrade::{Scribe, Upgrade, take_migrated};
use crate::engine::program::{Destinations, Program};
use crate::engine::step::{Position, Returns};
use crate::error::RunError;
use crate::state::{Values, Writes};

/// The stored versions that a journal starts from.
#[derive(Default)]
pub(crate) struct Known {
    /// The checkpoint to go on from.
    pub(crate) base: Option<Uuid>,
    /// The one before it.
    pub(crate) before: Option<Uuid>,
    /// The greatest id of the thread and namespace.
    pub(crate) newest: Option<Uuid>,
    pub(crate) versions: Vec<(Arc<str>, Uuid, Size)>,
}

/// A thread as it was stored, in the terms of this program.
pub(crate) struct Loaded<S: Values> {
    pub(crate) checkpoint: Checkpoint,
    pub(crate) state: S,
    pub(crate) position: Position<S>,
    pub(crate) pending: Pending,
    pub(crate) known: Known,
}

/// Says what does not fit.
pub(crate) struct Reader<'a, S: Values, C> {
    pub(crate) graph: &'a Program<S, C>,
    pub(crate) thread: &'a str,
}

impl<S: Values, C> Reader<'_, S, C> {
    #[allow(clippy::needless_pass_by_value)] // a text or an error, whatever the caller has
    pub(crate) fn unfit(&self, reason: impl ToString) -> RunError {
        let (graph, thread) = (self.graph.plan.graph().to_owned(), self.thread.to_owned());
        RunError::Incompatible { graph, thread, reason: reason.to_string() }
    }

    pub(crate) fn failed(&self, error: SaverError) -> RunError {
        RunError::Saver { graph: self.graph.plan.graph().to_owned(), error }
    }

    /// The index of a channel that was stored by its name.
    pub(crate) fn channel(&self, name: &str) -> Result<usize, CodecError> {
        let found = self.graph.channels.iter().position(|spec| spec.name == *name);
        found.ok_or_else(|| {
            CodecError::new(format!(
                "a task has written channel `{name}`, which the state has no longer: let the thread finish its step with the \
                 program that began it"
            ))
        })
    }
}

/// Reads what is stored. `state` is what the thread starts from where nothing is stored.
pub(crate) fn load<S: Values, C>(
    reader: &Reader<'_, S, C>,
    state: S,
    newest: Option<Uuid>,
    saved: Saved,
    is_child: bool,
) -> Result<Loaded<S>, RunError> {
    load_with(reader, state, newest, (saved, Vec::new()), is_child)
}

/// The same, with conversations that are in memory: what was left out of the values for that.
pub(in crate::engine) fn load_with<S: Values, C>(
    reader: &Reader<'_, S, C>,
    mut state: S,
    newest: Option<Uuid>,
    (saved, recalled): (Saved, Vec<Conversation>),
    is_child: bool,
) -> Result<Loaded<S>, RunError> {
    let graph = reader.graph;
    let Saved { checkpoint, values, writes, .. } = saved;
    check_graph(reader, &checkpoint)?;
    check_slots(reader, &writes)?;
    let (mut known, mut held) =
        (Known { base: Some(checkpoint.id), before: checkpoint.parent, newest, versions: Vec::new() }, Vec::new());
    let (mut start, mut returned) = (None, (Vec::new(), 0));
    let upgrade = Upgrade::of(reader, &checkpoint, &values)?;
    for (index, chain) in &values {
        let (Some(name), Some(version)) = (checkpoint.channels.get(*index), checkpoint.versions.get(*index)) else {
            continue;
        };
        let spec = graph.channels.iter().find(|spec| spec.name == **name);
        known.versions.push((name.clone(), *version, Size::of(chain, spec)));
        let unfit =
            |error: CodecError| reader.unfit(format!("the value of channel `{name}` does not fit: {error}{MIGRATE}"));
        match &**name {
            START => {
                let scribe = Scribe { reader, state: &state, upgrade: upgrade.as_ref() };
                let writes = unpack_writes(&scribe, chain.full.as_deref().unwrap_or_default()).map_err(unfit)?;
                start = Some(writes.into_iter().collect());
            }
            RETURNED => {
                let scribe = Scribe { reader, state: &state, upgrade: upgrade.as_ref() };
                for packed in chain.full.iter().chain(&chain.deltas) {
                    returned.0.append(&mut unpack_writes(&scribe, packed).map_err(unfit)?);
                    returned.1 += packed.len();
                }
            }
            _ if upgrade.is_some() => {}
            _ => {
                let channel = graph.channels.iter().position(|spec| spec.name == **name);
                let channel = channel.ok_or_else(|| reader.unfit(gone::<S>(name)))?;
                load_chain(&mut state, channel, chain).map_err(unfit)?;
                held.push(channel);
            }
        }
    }
    for Conversation { channel: name, version, parts, bytes, messages } in recalled {
        if let Some(channel) = graph.channels.iter().position(|spec| spec.name == *name) {
            state.set_any(channel, &messages);
            known.versions.push((name, version, Size { parts, bytes, is_foreign: false }));
            held.push(channel);
        }
    }
    // Channels whose stored values are of an older version: the next checkpoint stores them again.
    let mut migrated = Vec::new();
    if let Some(upgrade) = &upgrade {
        let channels = upgrade.values(reader)?;
        let is_stored = |name: &str| channels.contains_key(name);
        migrated = (0..).zip(&*graph.channels).filter(|(_, spec)| is_stored(&spec.name)).map(|(at, _)| at).collect();
        held.clone_from(&migrated);
        let stored: Vec<(&str, &DeltaChain)> =
            values.iter().filter_map(|(index, chain)| Some((&**checkpoint.channels.get(*index)?, chain))).collect();
        take_migrated(reader, &mut state, upgrade, channels, &stored)?;
        // What was stored by the older version is stored as a whole again.
        known.versions.clear();
    }
    let scribe = Scribe { reader, state: &state, upgrade: upgrade.as_ref() };
    for send in &checkpoint.agenda.sends {
        scribe.send(None, send).map_err(|error| reader.unfit(error))?;
    }
    let position = Position::restore(graph, &checkpoint.agenda, is_child);
    let mut position = position.map_err(|error| reader.unfit(error))?;
    position.restore_input(start);
    position.ledger.go_on(&graph.channels, &held, returned);
    if upgrade.is_some() {
        position.ledger.returned.iter_mut().for_each(Returns::store_again);
    }
    position.ledger.keep_notes(&graph.channels, &migrated);
    let pending = Pending::new(writes, &graph.renamed, upgrade);
    Ok(Loaded { checkpoint, state, position, pending, known })
}

const MIGRATE: &str = "; if the type was changed, raise `#[state(version = …)]` and give it a `migrate`";

/// A thread belongs to one graph.
fn check_graph<S: Values, C>(reader: &Reader<'_, S, C>, checkpoint: &Checkpoint) -> Result<(), RunError> {
    let (stored, here) = (&checkpoint.schema.graph, reader.graph.plan.graph());
    if stored == here || reader.graph.renamed.iter().any(|(old, new)| old == stored && new == here) {
        return Ok(());
    }
    Err(reader.unfit(format!("it is a thread of graph `{stored}`: use another thread id, or run that graph")))
}

/// Slots are counted on from those that are stored.
fn check_slots<S: Values, C>(reader: &Reader<'_, S, C>, writes: &[TaskWrites]) -> Result<(), RunError> {
    let slots = writes.iter().flat_map(|task| &task.writes).map(|write| write.slot);
    match slots.max().filter(|slot| *slot > i32::MAX / 2) {
        None => Ok(()),
        Some(slot) => Err(reader.unfit(format!(
            "a task has written slot {slot}, which no program of hier does: what is stored is damaged; restore a backup, or go on from an \
             earlier checkpoint"
        ))),
    }
}

fn gone<S: Values>(name: &str) -> String {
    format!(
        "channel `{name}` is stored, which the state has no longer: raise `#[state(version = {})]` and give it a `migrate` that \
         removes or renames the channel",
        S::VERSION + 1
    )
}

impl Pending {
    /// What commands of callers have written to the state, and where they led.
    pub(in crate::engine) fn null_writes<S: Values, C>(
        &self,
        reader: &Reader<'_, S, C>,
        state: &S,
    ) -> Result<(Writes<S>, Vec<Destinations>), CodecError> {
        let scribe = self.scribe(reader, state);
        let (mut writes, mut routes) = (Writes::new(), Vec::new());
        // Each command's routing stands behind what it wrote, and says of which version both are.
        for (command, routing) in self.commands()? {
            for write in command {
                let read = scribe.write(routing.rules_of(&write.channel), &write.channel, &write.value)?;
                for write in read {
                    writes.push(write);
                }
            }
            routes.push(scribe.destinations(&routing)?);
        }
        Ok((writes, routes))
    }

    /// The commands that callers gave, in order: what each wrote, and where it led.
    fn commands(&self) -> Result<Vec<(Vec<&PendingWrite>, RoutingRecord)>, CodecError> {
        let mut stored: Vec<&PendingWrite> = self.null.iter().flat_map(|null| &null.writes).collect();
        stored.retain(|write| write.slot >= 0 && &*write.channel != RESUME);
        stored.sort_by_key(|write| write.slot);
        let (mut commands, mut open) = (Vec::new(), Vec::new());
        for write in stored {
            if &*write.channel == ROUTING {
                commands.push((std::mem::take(&mut open), codec::decode(&write.value)?));
            } else {
                open.push(write);
            }
        }
        if !open.is_empty() {
            commands.push((open, RoutingRecord::default()));
        }
        Ok(commands)
    }

    /// The first slot that no command has written.
    pub(in crate::engine) fn null_slot(&self) -> i32 {
        let slots = self.null.iter().flat_map(|null| &null.writes).map(|write| write.slot);
        slots.max().unwrap_or(-1).max(-1) + 1
    }

    /// An answer for whoever asks first, as long as nobody has asked.
    pub(in crate::engine) fn anyone(&self) -> Result<Option<Value>, CodecError> {
        if !self.nobody_asked()? {
            return Ok(None);
        }
        let mut given = self.null.iter().flat_map(|null| &null.writes);
        let found = given.find(|write| write.slot == slot::RESUME && &*write.channel == RESUME);
        found.map(|write| codec::decode_json(&write.value)).transpose()
    }
}
