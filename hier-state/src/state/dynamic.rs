//! States with channels that are declared at run time and hold JSON values.

mod schema;

use std::any::Any;
use std::sync::Arc;

use serde::Serialize;
use serde_json::Value;

use super::derived::no_channel;
use super::sealed::Sealed;
use super::{ChannelWrite, SharesWith, Steps, Stored, StoredValues, Update, Values, Write, Writes};
use crate::channel::{ChannelSpec, Kind};
use crate::checkpoint::delta::Rule;
use crate::checkpoint::{CodecError, codec};
use crate::error::NodeError;
use crate::reducer::ReduceError;

pub use crate::reducer::json::Builtin;
use schema::DynChannel;
pub use schema::Schema;

/// A state with JSON values, whose channels a program declares at run time in a [`Schema`]. A channel without a value
/// differs from a channel with the value null.
#[derive(Clone, Debug)]
pub struct DynState {
    schema: Arc<Schema>,
    values: Vec<Option<Value>>,
    steps: Steps,
}

impl DynState {
    /// Returns the value of a channel, or `None` if the channel has no value or does not exist.
    pub fn get(&self, name: &str) -> Option<&Value> {
        self.values.get(self.schema.find(name)?)?.as_ref()
    }

    /// Returns the schema, which describes the channels.
    pub fn schema(&self) -> &Arc<Schema> {
        &self.schema
    }

    /// Creates an update from a JSON object of channels. See [`Schema::update`].
    pub fn update(&self, object: Value) -> Result<DynUpdate, NodeError> {
        self.schema.update(object)
    }

    /// Returns the number of supersteps that remain until the run must have finished, including the current superstep.
    /// If the number is 1, the run must finish in the current superstep. If the number is 0, the run will fail, because
    /// it cannot finish within the recursion limit.
    pub fn remaining_steps(&self) -> usize {
        self.steps.remaining_steps().get()
    }

    /// Returns true if the run must finish in the current superstep to stay within the recursion limit.
    pub fn is_last_step(&self) -> bool {
        self.steps.is_last_step().get()
    }

    /// Checks that a write was made with the schema of this state. See [`Values::check_update`].
    #[doc(hidden)]
    pub fn check_write(&self, write: &DynWrite) -> Result<(), NodeError> {
        let Some(difference) = self.schema.difference(write.channel, &write.spec) else { return Ok(()) };
        Err(NodeError::permanent(format!(
            "an update of channel `{}` was made with the schema of another state: {difference}; make it with the schema of this graph",
            write.spec.name
        )))
    }

    /// Returns the state as a JSON object. It contains the channels that have a value.
    pub fn to_value(&self) -> Value {
        let channels = self.schema.channels().zip(&self.values);
        Value::Object(channels.filter_map(|(spec, value)| Some((spec.name.to_string(), value.clone()?))).collect())
    }
}

impl Serialize for DynState {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.to_value().serialize(serializer)
    }
}

impl Sealed for DynState {}

impl Values for DynState {
    #[doc(hidden)]
    const IS_DYNAMIC: bool = true;
    type Write = DynWrite;
    type Update = DynUpdate;

    fn reduce(&mut self, write: DynWrite) -> Result<(), ReduceError> {
        let Some(slot) = self.values.get_mut(write.channel) else {
            return Err(ReduceError::new(format!("there is no channel `{}` in this state", write.name())));
        };
        let reducer = self.schema.channels.get(write.channel).and_then(|channel| channel.reducer.as_ref());
        match (write.value, slot, reducer) {
            (Write::Merge(new), Some(old), Some(reducer)) => reducer(old, new),
            // Only an empty topic has a reducer and no value.
            (Write::Merge(new), slot, Some(reducer)) => {
                let mut list = Value::Array(Vec::new());
                reducer(&mut list, new)?;
                *slot = Some(list).filter(|list| list.as_array().is_some_and(|items| !items.is_empty()));
                Ok(())
            }
            (Write::Merge(new) | Write::Overwrite(new), slot, _) => {
                *slot = Some(new);
                Ok(())
            }
        }
    }

    fn check_update(&self, writes: &Writes<Self>) -> Result<(), NodeError> {
        writes.iter().try_for_each(|write| self.check_write(write))
    }

    fn has_channels_of(&self, state: &Self) -> bool {
        let (own, other) = (&self.schema, &state.schema);
        Arc::ptr_eq(own, other) || own.is_same_as(other)
    }

    fn clear(&mut self, channel: usize) {
        if let (Some(value), Some(channel)) = (self.values.get_mut(channel), self.schema.channels.get(channel)) {
            value.clone_from(&channel.initial);
        }
    }

    fn set_steps(&mut self, steps: Steps) {
        self.steps = steps;
    }

    fn channel(&self, channel: usize) -> Option<&ChannelSpec> {
        self.schema.channels.get(channel).map(|channel| &*channel.spec)
    }

    fn write_from(&self, channel: usize, overwrite: bool, bytes: &[u8]) -> Result<DynWrite, CodecError> {
        let DynChannel { spec, .. } = self.schema.channels.get(channel).ok_or_else(|| no_channel(channel))?;
        let value = codec::decode_json(bytes)?;
        let value = if overwrite { Write::Overwrite(value) } else { Write::Merge(value) };
        Ok(DynWrite::new(channel, spec.clone(), value))
    }

    fn get_any(&self, channel: usize) -> Option<&dyn Any> {
        self.values.get(channel)?.as_ref().map(|value| value as &dyn Any)
    }

    fn set_any(&mut self, channel: usize, value: &dyn Any) {
        if let (Some(slot), Some(value)) = (self.values.get_mut(channel), value.downcast_ref::<Value>()) {
            *slot = Some(value.clone());
        }
    }
}

impl StoredValues for DynState {
    fn stored(&self, channel: usize) -> Option<&dyn Stored> {
        if self.channel(channel)?.kind == Kind::Untracked {
            return None;
        }
        self.values.get(channel)?.as_ref().map(|value| value as &dyn Stored)
    }

    fn load(&mut self, channel: usize, bytes: &[u8]) -> Result<(), CodecError> {
        let slot = self.values.get_mut(channel).ok_or_else(|| no_channel(channel))?;
        *slot = Some(codec::decode_json(bytes)?);
        Ok(())
    }

    fn merge_stored(&mut self, channel: usize, rule: &Rule<'_>, bytes: &[u8]) -> Result<bool, CodecError> {
        let slot = self.values.get_mut(channel).ok_or_else(|| no_channel(channel))?;
        let Some(value) = slot else { return Ok(false) };
        let merged = rule.merge_json(value, codec::decode_json(bytes)?);
        merged.map(|()| true).map_err(|error| CodecError::new(error.to_string()))
    }
}

impl SharesWith<DynState> for DynState {}

/// A write to a channel of a [`DynState`].
#[derive(Clone, Debug)]
pub struct DynWrite {
    channel: usize,
    /// The channel in the schema with which the write was made.
    spec: Arc<ChannelSpec>,
    value: Write<Value>,
}

impl DynWrite {
    fn new(channel: usize, spec: Arc<ChannelSpec>, value: Write<Value>) -> Self {
        let is_topic = matches!(spec.kind, Kind::Topic | Kind::TopicAccumulate);
        let is_merged = !spec.kind.single_writer();
        let value = match value {
            // A topic collects items, so a plain item is a list of one item.
            Write::Merge(item) if is_topic && !item.is_array() => Write::Merge(Value::Array(vec![item])),
            Write::Overwrite(item) if is_topic && !item.is_array() => Write::Overwrite(Value::Array(vec![item])),
            // Without a reducer there is nothing to bypass.
            Write::Overwrite(value) if !is_merged => Write::Merge(value),
            value => value,
        };
        Self { channel, spec, value }
    }
}

impl Sealed for DynWrite {}

impl ChannelWrite for DynWrite {
    fn channel(&self) -> usize {
        self.channel
    }

    fn name(&self) -> &str {
        &self.spec.name
    }

    fn is_overwrite(&self) -> bool {
        self.value.is_overwrite()
    }

    fn is_merged(&self) -> bool {
        !self.spec.kind.single_writer()
    }

    fn stored(&self) -> Option<&dyn Stored> {
        (self.spec.kind != Kind::Untracked).then(|| self.value.value() as &dyn Stored)
    }

    fn into_any(self) -> Box<dyn Any + Send> {
        Box::new(self)
    }

    fn from_any(channel: usize, spec: &ChannelSpec, write: Box<dyn Any + Send>) -> Option<Self> {
        let Self { spec: own, value, .. } = *write.downcast::<Self>().ok()?;
        let spec = if *own == *spec { own } else { Arc::new(spec.clone()) };
        Some(Self::new(channel, spec, value))
    }
}

/// An update of a [`DynState`]: the writes that a node returns. A graph refuses an update if a channel that it writes
/// has another place, kind or built-in reducer in the graph's schema. Make the update with the graph's own schema, for
/// example with [`DynState::update`].
#[derive(Clone, Debug, Default)]
pub struct DynUpdate(Writes<DynState>);

impl DynUpdate {
    /// Adds a write to a channel. If the update writes a channel several times, the reducer merges the writes. For a
    /// channel without a reducer, the last write counts.
    ///
    /// # Errors
    ///
    /// Fails for an unknown channel.
    pub fn write(self, schema: &Schema, name: &str, value: impl Into<Write<Value>>) -> Result<Self, NodeError> {
        let Some(channel) = schema.find(name) else {
            let names: Vec<&str> = schema.channels().map(|spec| &*spec.name).collect();
            let tail = hier_spec::did_you_mean(name, names);
            return Err(NodeError::permanent(format!("there is no channel `{name}`{tail}")));
        };
        let mut writes = self.0;
        writes.set(DynWrite::new(channel, schema.channels[channel].spec.clone(), value.into()));
        Ok(Self(writes))
    }
}

impl Update for DynUpdate {
    type State = DynState;

    fn writes(&self) -> &Writes<DynState> {
        &self.0
    }

    fn writes_mut(&mut self) -> &mut Writes<DynState> {
        &mut self.0
    }

    fn into_writes(self) -> Writes<DynState> {
        self.0
    }

    fn from_writes(writes: Writes<DynState>) -> Self {
        Self(writes)
    }
}
