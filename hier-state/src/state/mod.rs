//! Typed states: the traits that `#[derive(State)]` implements and the engine uses.
//!
//! A state is a set of named [channels](crate::channel). Nodes borrow the state and return *updates*: lists of writes.
//! The engine applies the writes of a step, in place, when the step has ended.
//!
//! A view is a struct with some of a state's fields. It is an argument of a node, or the input or output of
//! a graph.

mod conversation;
#[doc(hidden)]
pub mod derived;
mod dynamic;
#[doc(hidden)]
pub mod fields;
mod key;
mod managed;
#[doc(hidden)]
pub mod merge;
#[doc(hidden)]
pub mod owned;
mod persist;
mod reads;
#[doc(hidden)]
pub mod schema;
#[doc(hidden)]
pub mod sealed;
#[doc(hidden)]
pub mod secret;
mod share;
mod update;

use std::any::Any;
use std::fmt::Debug;

use serde_json::{Map, Value};

pub use conversation::{Conversation, wants_tools};
pub use dynamic::{Builtin, DynState, DynUpdate, DynWrite, Schema};
pub use key::{Channel, Internal, ManagedValue, Open, Plain, Reduced, WritableChannel};
#[doc(hidden)]
pub use key::{InboxChannel, MayHaveTwoWriters};
pub use managed::{IsLastStep, RemainingSteps, Steps};
pub use owned::{IntoUpdate, WriteClaim};
#[doc(hidden)]
pub use persist::{Carried, Parameter};
pub use persist::{Migration, Persist, Stored};
#[doc(hidden)]
pub use reads::Reads;
pub use share::SharesWith;
#[doc(hidden)]
pub use share::{Agree, Empty, Fork, I, Leaf, O, SameType, nibbles};
pub use update::{IntoWrites, Update, Writes};

pub use crate::reducer::{Overwrite, Write};

use crate::channel::{ChannelSpec, Table};
use crate::checkpoint::CodecError;
use crate::checkpoint::delta::Rule;
use crate::reducer::ReduceError;

/// The values of a graph's channels, as the engine uses them.
///
/// `#[derive(State)]` and [`DynState`] implement this sealed trait.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not the state of a graph",
    label = "not a state",
    note = "derive it: `#[derive(State, Clone, Debug, Default)]`"
)]
pub trait Values: StoredValues + Clone + Send + Sync + 'static {
    /// True if the state uses the progress of the run, as managed fields do.
    const MANAGED: bool = true;

    /// A write of a channel.
    type Write: ChannelWrite;
    /// The writes of a node, with a method for each channel.
    type Update: Update<State = Self>;

    /// Merges a write into its channel in place.
    fn reduce(&mut self, write: Self::Write) -> Result<(), ReduceError>;

    /// Resets a channel to its initial value, as at the end of a step for ephemeral channels and topics.
    fn clear(&mut self, channel: usize);

    /// Sets the managed fields to the progress of the run. Called once before each step.
    fn set_steps(&mut self, steps: Steps);

    /// Returns the name and kind of the channel with this index.
    fn channel(&self, channel: usize) -> Option<&ChannelSpec>;

    /// Returns the JSON Schema of a channel, or none if its type has no schema.
    fn channel_schema(channel: usize, generator: &mut schemars::SchemaGenerator) -> Option<schemars::Schema> {
        let _ = (channel, generator);
        None
    }

    /// The version of the state. [`Self::MIGRATIONS`] convert states that an older version stored.
    const VERSION: u32 = 1;
    /// The migrations from older versions, in ascending order. The last one converts the previous version.
    const MIGRATIONS: &'static [Migration] = &[];
    /// A number that changes when a channel is added, removed, or changes its type. 0 if unknown.
    const FINGERPRINT: u64 = 0;

    /// Returns a write of a channel from its stored form.
    fn write_from(&self, channel: usize, overwrite: bool, bytes: &[u8]) -> Result<Self::Write, CodecError>;

    /// Returns the value of a channel as JSON, or none if the channel has no value, is untracked or is secret.
    fn to_json(&self, channel: usize) -> Result<Option<Value>, serde_json::Error> {
        if self.channel(channel).is_some_and(|spec| spec.secret) {
            return Ok(None);
        }
        self.stored(channel).map(Stored::to_json).transpose()
    }

    /// Returns the value of a channel for a subgraph, or none if the channel has no value.
    fn get_any(&self, channel: usize) -> Option<&dyn Any>;

    /// Sets the value of a channel from another state. Does nothing if the types differ, which is impossible for derived states.
    fn set_any(&mut self, channel: usize, value: &dyn Any);
}

/// The values of a state's channels in their stored form. This trait is sealed, like [`Values`].
pub trait StoredValues: sealed::Sealed {
    /// Returns the value of a channel, or none if the channel has no value or is untracked.
    fn stored(&self, channel: usize) -> Option<&dyn Stored>;

    /// Sets the value of a channel from its stored form.
    fn load(&mut self, channel: usize, bytes: &[u8]) -> Result<(), CodecError>;

    /// Merges a part of a channel's value by the rule under which it was stored, if the reducer has changed. Returns false if the type of
    /// the channel does not support the rule.
    #[doc(hidden)]
    fn merge_stored(&mut self, channel: usize, rule: &Rule<'_>, bytes: &[u8]) -> Result<bool, CodecError>;
}

/// A write of a channel. This trait is sealed, like [`Values`].
pub trait ChannelWrite: sealed::Sealed + Clone + Send + Sync + Debug + 'static {
    /// Returns the index of the channel in the table of its state.
    fn channel(&self) -> usize;

    /// Returns the name of the channel.
    fn name(&self) -> &str;

    /// Returns true if the write replaces the value of the channel instead of being merged into it.
    fn is_overwrite(&self) -> bool;

    /// Returns true if the channel has a reducer, so that several writes of one task count.
    fn is_merged(&self) -> bool;

    /// Returns true if the channel is secret, so that the value is not shown.
    fn is_secret(&self) -> bool {
        false
    }

    /// Returns the written value, or none if the channel is untracked.
    fn stored(&self) -> Option<&dyn Stored>;

    /// Returns the written value as JSON, or null if the channel is untracked or secret. An overwrite is `{"$overwrite": value}`.
    fn to_json(&self) -> Result<Value, serde_json::Error> {
        let Some(value) = self.stored().filter(|_| !self.is_secret()) else { return Ok(Value::Null) };
        let value = value.to_json()?;
        if self.is_overwrite() {
            return Ok(Value::Object(Map::from_iter([("$overwrite".to_owned(), value)])));
        }
        Ok(value)
    }

    /// Returns the value without its channel, for the state of another graph.
    fn into_any(self) -> Box<dyn Any + Send>;

    /// Returns a write of a channel of this state from a value of another state. Returns none if the types differ, which is impossible
    /// for derived states.
    fn from_any(channel: usize, write: Box<dyn Any + Send>) -> Option<Self>;
}

/// A state with channels that the compiler knows. `#[derive(State)]` implements this trait.
///
/// The page of the derive describes the attributes and the generated items.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a state",
    label = "not a state",
    note = "derive it: `#[derive(State, Clone, Debug, Default)]`"
)]
pub trait State: Values + HasInitial {
    /// The typed keys of the channels: one field for each channel. Keys of flattened states are available through `Deref`.
    type Channels: 'static;

    /// The channel table.
    const CHANNELS: Table;
    /// The typed keys of the channels, as a constant.
    #[doc(hidden)]
    const KEYS: &'static Self::Channels;
    /// The fields by name, as a constant.
    #[doc(hidden)]
    const FIELDS: fields::Fields;

    /// Returns the typed keys of the channels.
    fn channels() -> &'static Self::Channels {
        Self::KEYS
    }

    /// Creates an empty update.
    fn update() -> Self::Update {
        Self::Update::default()
    }
}

/// A state with an initial value: a state that implements `Default`.
#[diagnostic::on_unimplemented(
    message = "the state `{Self}` has no initial value",
    label = "needs `Default`",
    note = "derive `Default` for it and for the types of its fields (an enum marks a variant with `#[default]`), or write `impl Default`"
)]
pub trait Initial: Default {}

#[diagnostic::do_not_recommend]
impl<S: Default> Initial for S {}

/// A derived state. The check of its types includes [`Initial`], so that the compiler reports a missing `Default` once.
#[doc(hidden)]
pub trait HasInitial: Initial {}

/// A state that contains the channels of `Part`: `Part` itself, or a state that flattens it.
#[diagnostic::on_unimplemented(
    message = "the state `{Self}` does not contain the channels of `{Part}`",
    note = "extend it: a field of type `{Part}` with `#[state(flatten)]`"
)]
pub trait Contains<Part: Values>: Values {
    /// The index of the part's first channel. None if it is known only at run time.
    #[doc(hidden)]
    const FIRST: Option<usize>;
    /// Returns the part.
    fn part(&self) -> &Part;
    /// Converts a write of the part into a write of the whole state.
    fn lift(write: Part::Write) -> Self::Write;
}
