//! Takes up a thread: the state, what is to run next, what the tasks of the open step have done.

use std::sync::Arc;

use serde_json::{Map, Value};
use uuid::Uuid;

use super::Pending;
use super::delta::{Size, load_chain, put_together};
use super::journal::{RETURNED, START, schema, unpack_writes};
use super::pending::{RESUME, ROUTING, RoutingRecord, read_writes};
use crate::checkpoint::{Chain, Checkpoint, CodecError, Saved, SaverError, chain_json, codec, slot};
use crate::engine::program::{Inner, Leads};
use crate::engine::step::Position;
use crate::error::RunError;
use crate::state::{Values, Writes};

/// What a journal has to know of what is stored.
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
    pub(crate) graph: &'a Inner<S, C>,
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
    mut state: S,
    newest: Option<Uuid>,
    saved: Saved,
    is_child: bool,
) -> Result<Loaded<S>, RunError> {
    let graph = reader.graph;
    let Saved { checkpoint, values, writes } = saved;
    check_graph(reader, &checkpoint)?;
    let (mut known, mut recent) =
        (Known { base: Some(checkpoint.id), before: checkpoint.parent, newest, versions: Vec::new() }, Vec::new());
    let (mut start, mut returned) = (None, Vec::new());
    let mut stored = migrate(reader, &checkpoint, &values)?;
    for (index, chain) in &values {
        let (Some(name), Some(version)) = (checkpoint.channels.get(*index), checkpoint.versions.get(*index)) else {
            continue;
        };
        known.versions.push((name.clone(), *version, Size::of(chain)));
        let unfit =
            |error: CodecError| reader.unfit(format!("the value of channel `{name}` does not fit: {error}{MIGRATE}"));
        match &**name {
            START => start = Some(input(reader, &state, chain).map_err(unfit)?),
            RETURNED => returned = handed_back(reader, &state, chain).map_err(unfit)?,
            _ if stored.is_some() => {}
            _ => {
                let channel = graph.channels.iter().position(|spec| spec.name == **name);
                let channel = channel.ok_or_else(|| reader.unfit(gone::<S>(name)))?;
                load_chain(&mut state, channel, chain).map_err(unfit)?;
                if *version == checkpoint.id {
                    recent.push(channel);
                }
            }
        }
    }
    // Channels whose stored values are of an older version: the next checkpoint stores them again.
    let mut migrated = Vec::new();
    if let Some(stored) = &mut stored {
        let is_stored = |name: &str| stored.contains_key(name);
        migrated = (0..).zip(&graph.channels).filter(|(_, spec)| is_stored(&spec.name)).map(|(at, _)| at).collect();
        take_migrated(reader, &mut state, stored)?;
        // What was stored by the older version is stored as a whole again.
        known.versions.retain(|(name, ..)| matches!(&**name, START | RETURNED));
        recent.clear();
    }
    let position = Position::restore(graph, &checkpoint.agenda, is_child);
    let mut position = position.map_err(|error| reader.unfit(error))?;
    position.set_input(start);
    position.ledger.go_on(&graph.channels, &recent, returned);
    position.ledger.keep_notes(&graph.channels, &migrated);
    let pending = Pending::new(writes, &graph.renamed);
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

fn gone<S: Values>(name: &str) -> String {
    format!(
        "channel `{name}` is stored, which the state has no longer: raise `#[state(version = {})]` and give it a `migrate` that \
         removes or renames the channel",
        S::VERSION + 1
    )
}

/// The channels by name as the present version has them, if an older one has stored them.
fn migrate<S: Values, C>(
    reader: &Reader<'_, S, C>,
    checkpoint: &Checkpoint,
    values: &[(usize, Chain)],
) -> Result<Option<Map<String, Value>>, RunError> {
    let (stored, present) = (checkpoint.schema.version, schema(reader.graph).version);
    if stored == present {
        return Ok(None);
    }
    if stored > present {
        return Err(reader.unfit(format!(
            "its state is of version {stored}, and this program knows versions up to {present}: run a newer program"
        )));
    }
    let first = present as usize - S::MIGRATIONS.len();
    if (stored as usize) < first {
        return Err(reader.unfit(format!(
            "its state is of version {stored}, and the migrations of this program start at version {first}: the one from \
             version {stored} is missing"
        )));
    }
    let mut channels = Map::new();
    for (index, chain) in values {
        let Some(name) = checkpoint.channels.get(*index).filter(|name| !name.starts_with("__start__")) else {
            continue;
        };
        if &**name == RETURNED {
            continue;
        }
        // Parts of a reducer of the program's own, if the channel still has it: it puts them together.
        let value = chain_json(chain).or_else(|error| {
            let channel = reader.graph.channels.iter().position(|spec| spec.name == **name && spec.delta);
            let channel =
                channel.ok_or_else(|| CodecError::new(format!("{error}: keep the channel and its reducer")))?;
            put_together((reader.graph.initial)(), channel, chain).map_err(|error| {
                CodecError::new(format!("its parts are of another type ({error}): let the new type have a new channel"))
            })
        });
        let value = value.map_err(|error| reader.unfit(format!("channel `{name}` cannot be migrated: {error}")))?;
        channels.insert(name.to_string(), value);
    }
    for (version, migration) in (stored as usize..).zip(&S::MIGRATIONS[stored as usize - first..]) {
        migration(&mut channels)
            .map_err(|error| reader.unfit(format!("the migration from version {version} failed: {error}")))?;
    }
    Ok(Some(channels))
}

/// Takes migrated channels into the state: all of them, or none.
fn take_migrated<S: Values, C>(
    reader: &Reader<'_, S, C>,
    state: &mut S,
    channels: &mut Map<String, Value>,
) -> Result<(), RunError> {
    for (name, value) in std::mem::take(channels) {
        let channel = reader.graph.channels.iter().position(|spec| spec.name == *name);
        let channel = channel
            .ok_or_else(|| reader.unfit(format!("its migration leaves a channel `{name}`, which the state has not")))?;
        let taken = codec::encode(&value).and_then(|bytes| state.load(channel, &bytes));
        taken.map_err(|error| reader.unfit(format!("the migrated value of channel `{name}` does not fit: {error}")))?;
    }
    Ok(())
}

/// An input that was stored.
fn input<S: Values, C>(reader: &Reader<'_, S, C>, state: &S, chain: &Chain) -> Result<Writes<S>, CodecError> {
    let packed = chain.full.as_deref().unwrap_or_default();
    Ok(unpack_writes(state, packed, |name| reader.channel(name))?.into_iter().collect())
}

/// What a subgraph had written before it stopped.
fn handed_back<S: Values, C>(reader: &Reader<'_, S, C>, state: &S, chain: &Chain) -> Result<Vec<S::Write>, CodecError> {
    let mut writes = Vec::new();
    for packed in chain.full.iter().chain(&chain.deltas) {
        writes.append(&mut unpack_writes(state, packed, |name| reader.channel(name))?);
    }
    Ok(writes)
}

impl Pending {
    /// What commands of callers have written to the state, and where they led.
    pub(super) fn null_writes<S: Values, C>(
        &self,
        reader: &Reader<'_, S, C>,
        state: &S,
    ) -> Result<(Writes<S>, Vec<Leads>), CodecError> {
        let Some(null) = &self.null else { return Ok((Writes::new(), Vec::new())) };
        let (mut writes, mut routes) = (Vec::new(), Vec::new());
        let own = |name: &str| matches!(name, ROUTING | RESUME);
        for write in null.writes.iter().filter(|write| &*write.channel == ROUTING) {
            let route: RoutingRecord = codec::decode(&write.value)?;
            routes.push(route.leads(|name| reader.graph.node(name))?);
        }
        let stored = null.writes.iter().filter(|write| write.slot >= 0 && !own(&write.channel));
        writes.extend(read_writes(state, stored, |name| reader.channel(name))?);
        Ok((writes.into_iter().collect(), routes))
    }

    /// The first slot that no command has written.
    pub(super) fn null_slot(&self) -> i32 {
        let slots = self.null.iter().flat_map(|null| &null.writes).map(|write| write.slot);
        slots.max().unwrap_or(-1).max(-1) + 1
    }

    /// An answer for whoever asks first, as long as nobody has asked.
    pub(super) fn anyone(&self) -> Result<Option<Value>, CodecError> {
        if !self.nobody_asked()? {
            return Ok(None);
        }
        let mut given = self.null.iter().flat_map(|null| &null.writes);
        let found = given.find(|write| write.slot == slot::RESUME && &*write.channel == RESUME);
        found.map(|write| codec::decode_json(&write.value)).transpose()
    }
}
