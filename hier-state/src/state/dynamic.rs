//! States with channels that are declared at run time and hold JSON values.

use std::any::Any;
use std::borrow::Cow;
use std::fmt;
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
use crate::reducer::json::Reducer;

pub use crate::reducer::json::Builtin;

/// The channels of a [`DynState`].
///
/// ```
/// use hier_core::prelude::*;
/// use hier_core::state::Schema;
/// use hier_core::state::Builtin;
///
/// let schema = Schema::new().last("question").reduced("log", Builtin::Append).ephemeral("hint");
/// # let _ = schema;
/// ```
#[derive(Clone, Debug, Default)]
#[must_use]
pub struct Schema {
    channels: Vec<DynChannel>,
}

#[derive(Clone)]
struct DynChannel {
    spec: ChannelSpec,
    reducer: Option<Reducer>,
    initial: Option<Value>,
}

impl fmt::Debug for DynChannel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.spec.fmt(f)
    }
}

impl Schema {
    /// Creates a schema without channels.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a channel that keeps the last value. The channel has no value until a node or an input writes it. The
    /// channel allows one writer per superstep.
    pub fn last(self, name: impl Into<String>) -> Self {
        self.with(name, Kind::Last, None, None)
    }

    /// Adds a channel with a built-in reducer. The variants of [`Builtin`] describe the initial values.
    pub fn reduced(self, name: impl Into<String>, reducer: Builtin) -> Self {
        let mut schema = self.with(name, Kind::Reduced, Some(reducer.reducer()), Some(reducer.initial()));
        if let Some(DynChannel { spec, .. }) = schema.channels.last_mut() {
            spec.reducer = Some(Cow::Borrowed(reducer.name()));
        }
        schema
    }

    /// Adds a channel with a custom reducer and an initial value.
    pub fn reduced_with(
        self,
        name: impl Into<String>,
        initial: Value,
        reducer: impl Fn(&mut Value, Value) -> Result<(), ReduceError> + Send + Sync + 'static,
    ) -> Self {
        self.with(name, Kind::Reduced, Some(Arc::new(reducer)), Some(initial))
    }

    /// Adds a channel whose value is visible only in the superstep after the write. The channel allows one writer per
    /// superstep.
    pub fn ephemeral(self, name: impl Into<String>) -> Self {
        self.with(name, Kind::Ephemeral, None, None)
    }

    /// Adds a channel that no saver stores. The channel allows one writer per superstep.
    pub fn untracked(self, name: impl Into<String>) -> Self {
        self.with(name, Kind::Untracked, None, None)
    }

    /// Adds a topic: a list of the items that were written in the last superstep. If `accumulate` is true, the list
    /// contains the items of all supersteps. A write is an item or a list of items.
    pub fn topic(self, name: impl Into<String>, accumulate: bool) -> Self {
        let kind = if accumulate { Kind::TopicAccumulate } else { Kind::Topic };
        // An empty topic has no value, as in LangGraph.
        self.with(name, kind, Some(Builtin::Append.reducer()), None)
    }

    fn with(mut self, name: impl Into<String>, kind: Kind, reducer: Option<Reducer>, initial: Option<Value>) -> Self {
        let spec = ChannelSpec { name: Cow::Owned(name.into()), kind, reducer: None, delta: false, secret: false };
        self.channels.push(DynChannel { spec, reducer, initial });
        self
    }

    /// Returns the channels in the order of their indices.
    pub fn channels(&self) -> impl Iterator<Item = &ChannelSpec> + Clone {
        self.channels.iter().map(|channel| &channel.spec)
    }

    /// Returns the index of a channel, or `None` if no channel has this name.
    pub fn find(&self, name: &str) -> Option<usize> {
        self.channels.iter().position(|channel| channel.spec.name == name)
    }

    /// Creates a state in which each channel has its initial value.
    pub fn initial(self: &Arc<Self>) -> DynState {
        let values = self.channels.iter().map(|channel| channel.initial.clone()).collect();
        DynState { schema: self.clone(), values, steps: Steps::default() }
    }

    /// Creates an update from a JSON object whose keys are the names of channels. If `object` is null, the update is
    /// empty. A null for a channel writes null.
    ///
    /// # Errors
    ///
    /// Fails for an unknown channel, and for other JSON than an object or null.
    pub fn update(&self, object: Value) -> Result<DynUpdate, NodeError> {
        let object = match object {
            Value::Object(object) => object,
            Value::Null => return Ok(DynUpdate::default()),
            other => {
                return Err(NodeError::permanent(format!("an update must be an object of channel names, not {other}")));
            }
        };
        object.into_iter().try_fold(DynUpdate::default(), |update, (name, value)| update.write(self, &name, value))
    }
}

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
            return Err(ReduceError::new(format!("there is no channel `{}` in this state", write.name)));
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

    fn clear(&mut self, channel: usize) {
        if let (Some(value), Some(channel)) = (self.values.get_mut(channel), self.schema.channels.get(channel)) {
            value.clone_from(&channel.initial);
        }
    }

    fn set_steps(&mut self, steps: Steps) {
        self.steps = steps;
    }

    fn channel(&self, channel: usize) -> Option<&ChannelSpec> {
        self.schema.channels.get(channel).map(|channel| &channel.spec)
    }

    fn write_from(&self, channel: usize, overwrite: bool, bytes: &[u8]) -> Result<DynWrite, CodecError> {
        let spec = self.channel(channel).ok_or_else(|| no_channel(channel))?;
        let value = codec::decode_json(bytes)?;
        let value = if overwrite { Write::Overwrite(value) } else { Write::Merge(value) };
        Ok(DynWrite::new(channel, spec, (*spec.name).into(), value))
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
    name: Arc<str>,
    value: Write<Value>,
    is_merged: bool,
    is_tracked: bool,
}

impl DynWrite {
    fn new(channel: usize, spec: &ChannelSpec, name: Arc<str>, value: Write<Value>) -> Self {
        let is_topic = matches!(spec.kind, Kind::Topic | Kind::TopicAccumulate);
        let (is_merged, is_tracked) = (!spec.kind.single_writer(), spec.kind != Kind::Untracked);
        let value = match value {
            // A topic collects items, so a plain item is a list of one item.
            Write::Merge(item) if is_topic && !item.is_array() => Write::Merge(Value::Array(vec![item])),
            Write::Overwrite(item) if is_topic && !item.is_array() => Write::Overwrite(Value::Array(vec![item])),
            // Without a reducer there is nothing to bypass.
            Write::Overwrite(value) if !is_merged => Write::Merge(value),
            value => value,
        };
        Self { channel, name, value, is_merged, is_tracked }
    }
}

impl Sealed for DynWrite {}

impl ChannelWrite for DynWrite {
    fn channel(&self) -> usize {
        self.channel
    }

    fn name(&self) -> &str {
        &self.name
    }

    fn is_overwrite(&self) -> bool {
        self.value.is_overwrite()
    }

    fn is_merged(&self) -> bool {
        self.is_merged
    }

    fn stored(&self) -> Option<&dyn Stored> {
        self.is_tracked.then(|| self.value.value() as &dyn Stored)
    }

    fn into_any(self) -> Box<dyn Any + Send> {
        Box::new(self)
    }

    fn from_any(channel: usize, spec: &ChannelSpec, write: Box<dyn Any + Send>) -> Option<Self> {
        let Self { name, value, .. } = *write.downcast::<Self>().ok()?;
        Some(Self::new(channel, spec, name, value))
    }
}

/// An update of a [`DynState`]: the writes that a node returns. A graph refuses an update if the channels of its
/// schema have other names or places: make it with the graph's own schema, for example with [`DynState::update`].
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
        writes.set(DynWrite::new(channel, &schema.channels[channel].spec, name.into(), value.into()));
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
