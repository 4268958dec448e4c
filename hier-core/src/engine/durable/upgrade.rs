//! Converts the values and records of threads that an older version of the state has stored.

use serde_json::{Map, Value};

use crate::checkpoint::{Checkpoint, CodecError, DeltaChain, SendRecord, chain_json, codec};
use crate::engine::attempt::stored::{RoutingRecord, WriteRule};
use crate::engine::durable::delta::{load_chain, put_together};
use crate::engine::durable::names::{RETURNED, START};
use crate::engine::durable::thread_reader::ThreadReader;
use crate::engine::program::{Destinations, SendArg};
use crate::error::RunError;
use crate::state::{Migration, Values};

/// Converts records to the current version of the state. Each record has its own version, because different versions of
/// the program may have run the tasks of one superstep.
pub(in crate::engine) struct SchemaUpgrade {
    stored: u32,
    present: u32,
    channels: Map<String, Value>,
    /// The migrations from the version of the checkpoint to the current version.
    migrations: &'static [Migration],
}

impl SchemaUpgrade {
    /// Returns the upgrade for a checkpoint. Returns `None` if the checkpoint has the current version.
    pub(in crate::engine) fn needed_by<S: Values, C>(
        reader: ThreadReader<'_, S, C>,
        checkpoint: &Checkpoint,
        values: &[(usize, DeltaChain)],
    ) -> Result<Option<Self>, RunError> {
        let (stored, present) = (checkpoint.schema.version, S::VERSION);
        if stored == present {
            return Ok(None);
        }
        if stored > present {
            return Err(reader.unfit(newer(stored, present)));
        }
        let first = present as usize - S::MIGRATIONS.len();
        if (stored as usize) < first {
            return Err(reader.unfit(format!(
                "its state has version {stored}, but the migrations of this program start at version {first}: add a migration \
                 from version {stored}"
            )));
        }
        let mut channels = Map::new();
        for (index, chain) in values {
            let Some(name) = checkpoint.channels.get(*index).filter(|name| !matches!(&***name, START | RETURNED))
            else {
                continue;
            };
            let value = whole(reader, name, chain)
                .map_err(|error| reader.unfit(format!("channel `{name}` cannot be migrated: {error}")))?;
            channels.insert(name.to_string(), value);
        }
        Ok(Some(Self { stored, present, channels, migrations: &S::MIGRATIONS[stored as usize - first..] }))
    }

    /// Returns the channels in the current version, by name.
    pub(in crate::engine) fn values<S: Values, C>(
        &self,
        reader: ThreadReader<'_, S, C>,
    ) -> Result<Map<String, Value>, RunError> {
        let mut channels = self.channels.clone();
        self.migrate(&mut channels, self.stored, self.present).map_err(|error| reader.unfit(error))?;
        Ok(channels)
    }

    fn migrate(&self, channels: &mut Map<String, Value>, from: u32, to: u32) -> Result<(), String> {
        let steps = (self.stored..self.present).zip(self.migrations);
        for (version, migration) in steps.filter(|(version, _)| (from..to).contains(version)) {
            migration(channels).map_err(|error| {
                format!(
                    "the migration from version {version} failed: {error}; a migration also receives parts of a state, so it must accept \
                     missing channels"
                )
            })?;
        }
        Ok(())
    }

    /// Converts a write of this version to writes of the current version.
    ///
    /// A migration may read other channels, so the write is migrated together with the whole state. The result has the
    /// written channel, and the channels that differ from a migration without the write and from a migration with the
    /// channel's earlier value.
    fn write(&self, version: u32, name: &str, value: Value) -> Result<Map<String, Value>, CodecError> {
        let refused = |error: String| {
            CodecError::new(format!(
                "a write of version {version} of the state to channel `{name}` cannot be migrated: {error}; if the superstep is still \
                 open, {FINISH}"
            ))
        };
        let migrated =
            |mut channels: Map<String, Value>| self.migrate(&mut channels, version, self.present).map(|()| channels);
        let mut held = self.channels.clone();
        self.migrate(&mut held, self.stored, version).map_err(refused)?;
        let (mut without, mut with) = (held.clone(), held.clone());
        without.remove(name);
        with.insert(name.to_owned(), value);
        let mut written = migrated(with).map_err(refused)?;
        let others = [held, without].map(migrated);
        let differs =
            |channel: &String, value: &Value| others.iter().flatten().any(|other| other.get(channel) != Some(value));
        written.retain(|channel, value| channel == name || differs(channel, value));
        Ok(written)
    }
}

const FINISH: &str = "finish the thread's superstep with the program that began it";

fn newer(stored: u32, present: u32) -> String {
    format!("its state has version {stored}, but this program knows versions up to {present}: run a newer program")
}

/// Returns a channel's value as JSON. For the parts of a custom reducer, the channel must still have that reducer.
fn whole<S: Values, C>(reader: ThreadReader<'_, S, C>, name: &str, chain: &DeltaChain) -> Result<Value, CodecError> {
    chain_json(chain).or_else(|error| {
        let channel = reader.graph.channels.iter().position(|spec| spec.name == *name && spec.delta);
        let channel = channel.ok_or_else(|| CodecError::new(format!("{error}: keep the channel and its reducer")))?;
        put_together((reader.graph.initial)(), channel, chain).map_err(|error| {
            CodecError::new(format!(
                "its stored parts do not fit the type of the channel ({error}): use a new channel for the new type"
            ))
        })
    })
}

/// Loads all migrated channels into the state. For a channel that the migrations did not change, loads the stored
/// value.
pub(in crate::engine) fn take_migrated<S: Values, C>(
    reader: ThreadReader<'_, S, C>,
    state: &mut S,
    upgrade: &SchemaUpgrade,
    channels: Map<String, Value>,
    stored: &[(&str, &DeltaChain)],
) -> Result<(), RunError> {
    for (name, value) in channels {
        let channel = reader.graph.channels.iter().position(|spec| spec.name == *name);
        let channel = channel.ok_or_else(|| {
            reader.unfit(format!(
                "its migration returns a channel `{name}`, which the state does not have: remove or \
                rename the channel in the migration"
            ))
        })?;
        let untouched =
            stored.iter().find(|(stored, _)| *stored == name && upgrade.channels.get(&name) == Some(&value));
        if let Some((_, chain)) = untouched
            && load_chain(state, channel, chain).is_ok()
        {
            continue;
        }
        let taken = codec::encode(&value).and_then(|bytes| state.load(channel, &bytes));
        taken.map_err(|error| reader.unfit(format!("the migrated value of channel `{name}` does not fit: {error}")))?;
    }
    Ok(())
}

/// Reads the writes and Sends of an open superstep. An older version of the state may have stored them.
pub(in crate::engine) struct RecordRewriter<'a, S: Values, C> {
    pub(in crate::engine) reader: ThreadReader<'a, S, C>,
    pub(in crate::engine) state: &'a S,
    pub(in crate::engine) upgrade: Option<&'a SchemaUpgrade>,
}

impl<S: Values, C> RecordRewriter<'_, S, C> {
    fn version(&self, recorded: Option<u32>) -> u32 {
        recorded.unwrap_or_else(|| self.upgrade.map_or(S::VERSION, |upgrade| upgrade.stored))
    }

    /// Converts a write that was stored under this rule. A migration may split a channel into several writes.
    pub(in crate::engine) fn write(
        &self,
        rule: WriteRule<'_>,
        name: &str,
        bytes: &[u8],
    ) -> Result<Vec<S::Write>, CodecError> {
        let (version, overwrite) = (self.version(rule.version), codec::is_overwrite(bytes));
        if version > S::VERSION {
            return Err(CodecError::new(newer(version, S::VERSION)));
        }
        let Some(upgrade) = self.upgrade.filter(|_| version < S::VERSION) else {
            let (channel, overwrite) = self.ruled(rule.reducer, name, overwrite)?;
            return Ok(vec![self.state.write_from(channel, overwrite, bytes)?]);
        };
        let stored = codec::decode_json(bytes)?;
        let written = upgrade.write(version, name, stored.clone())?;
        let read = |(channel, value): (String, Value)| {
            let (index, overwrite) = self.ruled(rule.reducer, &channel, overwrite)?;
            let migrated = || self.state.write_from(index, overwrite, &codec::encode(&value)?);
            if channel == name && value == stored {
                return self.state.write_from(index, overwrite, bytes).or_else(|_| migrated());
            }
            migrated()
        };
        written.into_iter().map(read).collect()
    }

    /// Returns the channel of a stored write, and true if the write replaces the channel's value. Fails if the reducer
    /// of the channel has changed.
    fn ruled(&self, rule: &str, name: &str, overwrite: bool) -> Result<(usize, bool), CodecError> {
        let channel = self.reader.channel(name)?;
        let spec = &self.reader.graph.channels[channel];
        let overwrite = spec.replaces(rule, overwrite).ok_or_else(|| {
            CodecError::new(format!(
                "a stored write to channel `{name}`, which is not applied yet, is for the reducer `{rule}`, but the channel now has `{}`: \
                 {FINISH}, or use a new channel for the new reducer",
                spec.rule()
            ))
        })?;
        Ok((channel, overwrite))
    }

    pub(in crate::engine) fn destinations(&self, routing: &RoutingRecord) -> Result<Destinations, CodecError> {
        let mut destinations = Destinations::default();
        for node in &routing.go {
            destinations.go.push(self.reader.graph.node(node)?);
        }
        for send in &routing.sends {
            let (node, arg) = self.send(routing.version, send)?;
            destinations.sends.push(node, arg);
        }
        Ok(destinations)
    }

    /// Reads a Send. The payload for a subgraph is a state. Its version is that of the record.
    pub(in crate::engine) fn send(
        &self,
        version: Option<u32>,
        send: &SendRecord,
    ) -> Result<(usize, SendArg), CodecError> {
        let node = self.reader.graph.node(&send.node)?;
        let version = self.version(version);
        if version != S::VERSION && self.reader.graph.child(node).is_some_and(|child| child.takes_state()) {
            return Err(CodecError::new(format!(
                "a state of version {version} was sent to the graph `{}`, but this program has version {}: {FINISH}",
                send.node,
                S::VERSION
            )));
        }
        Ok((node, SendArg::stored(send.payload.clone())))
    }
}
