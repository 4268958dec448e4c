//! Typed states: the traits that `#[derive(State)]` implements and the engine uses.
//!
//! A state is a struct whose fields are [channels](crate::channel). Nodes borrow the state and return *updates*, which
//! are lists of writes to channels. The engine applies the writes at the end of each superstep.
//!
//! A view is a struct with some of a state's fields. It can be an argument of a node, or the input or output of a
//! graph.

#[doc(hidden)]
pub mod checked;
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
#[doc(hidden)]
pub use managed::{ManagedType, Unmanaged};
pub use owned::{IntoUpdate, WriteClaim};
#[doc(hidden)]
pub use persist::encode_readable;
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
use crate::error::{NodeError, RunError};
use crate::reducer::ReduceError;

/// The methods of a state that the engine calls. This trait is sealed: `#[derive(State)]` and [`DynState`] implement
/// it.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not the state of a graph",
    label = "not a state",
    note = "derive it: `#[derive(State, Clone, Debug, Default)]`"
)]
pub trait Values: StoredValues + Clone + Send + Sync + 'static {
    /// True if the state has managed fields, which depend on the progress of the run.
    const MANAGED: bool = true;
    /// True if states of this type may have different channels.
    #[doc(hidden)]
    const IS_DYNAMIC: bool = false;

    /// A write to one channel.
    type Write: ChannelWrite;
    /// The update type, with a method for each channel.
    type Update: Update<State = Self>;

    /// Merges a write into its channel. Fails if the reducer refuses the write.
    fn reduce(&mut self, write: Self::Write) -> Result<(), ReduceError>;

    /// Checks that an update was made for a state with these channels. The engine finds channels by their indices, so it
    /// would merge the values of another update into the wrong channels.
    ///
    /// # Errors
    ///
    /// Fails for an update that was made with the schema of another dynamic state. The error names the difference.
    #[doc(hidden)]
    #[inline]
    fn check_update(&self, writes: &Writes<Self>) -> Result<(), NodeError> {
        let _ = writes;
        Ok(())
    }

    /// Returns true if another state has the same channels as this one. This is so unless both are dynamic.
    #[doc(hidden)]
    fn has_channels_of(&self, state: &Self) -> bool {
        let _ = state;
        true
    }

    /// Resets a channel to its initial value. The engine calls this at the end of a superstep for ephemeral channels
    /// and topics.
    fn clear(&mut self, channel: usize);

    /// Sets the managed fields to the progress of the run. The engine calls this once before each superstep.
    fn set_steps(&mut self, steps: Steps);

    /// Returns the description of the channel with this index, or `None` if no channel has this index.
    fn channel(&self, channel: usize) -> Option<&ChannelSpec>;

    /// Returns the JSON Schema of a channel, or `None` if its type has no schema.
    fn channel_schema(channel: usize, generator: &mut schemars::SchemaGenerator) -> Option<schemars::Schema> {
        let _ = (channel, generator);
        None
    }

    /// The version of the state. [`Self::MIGRATIONS`] convert states of older versions.
    const VERSION: u32 = 1;
    /// The migrations from older versions, oldest first. The last migration converts a state of the previous version to
    /// the current version.
    const MIGRATIONS: &'static [Migration] = &[];
    /// A number that changes when a channel is added or removed, or when the type of a channel changes. 0 if the number
    /// is not known.
    const FINGERPRINT: u64 = 0;

    /// Decodes a stored write to the channel with this index. `overwrite` is true if the write replaces the value.
    fn write_from(&self, channel: usize, overwrite: bool, bytes: &[u8]) -> Result<Self::Write, CodecError>;

    /// Returns the value of a channel as JSON. Returns `None` if the channel has no value, is untracked or is secret.
    fn to_json(&self, channel: usize) -> Result<Option<Value>, serde_json::Error> {
        if self.channel(channel).is_some_and(|spec| spec.secret) {
            return Ok(None);
        }
        self.stored(channel).map(Stored::to_json).transpose()
    }

    /// Returns the value of a channel, so that the engine can pass the value to a subgraph. Returns `None` if the
    /// channel has no value.
    fn get_any(&self, channel: usize) -> Option<&dyn Any>;

    /// Sets the value of a channel to a value of another state. Does nothing if the types differ, which cannot happen
    /// in derived states.
    fn set_any(&mut self, channel: usize, value: &dyn Any);
}

/// Checks an update that no node of the graph has returned. See [`Values::check_update`].
#[doc(hidden)]
pub fn check_outside<S: Values>(graph: &str, state: &S, writes: &Writes<S>) -> Result<(), RunError> {
    let refused = |error: NodeError| RunError::Update { graph: graph.to_owned(), reason: error.to_string() };
    state.check_update(writes).map_err(refused)
}

/// The stored form of a state's channels. This trait is sealed, like [`Values`].
pub trait StoredValues: sealed::Sealed {
    /// Returns the value of a channel in a form that the engine can encode. Returns `None` if the channel has no value
    /// or is untracked.
    fn stored(&self, channel: usize) -> Option<&dyn Stored>;

    /// Sets the value of a channel to the value that the saver has stored as `bytes`. Fails if the type of the channel
    /// cannot read the bytes.
    fn load(&mut self, channel: usize, bytes: &[u8]) -> Result<(), CodecError>;

    /// Merges a stored addition into a channel by the rule under which the addition was stored. The engine calls this
    /// method if the rule differs from the channel's current reducer. Returns false if the channel's type does not
    /// support the rule.
    #[doc(hidden)]
    fn merge_stored(&mut self, channel: usize, rule: &Rule<'_>, bytes: &[u8]) -> Result<bool, CodecError>;
}

/// A write to a channel. This trait is sealed, like [`Values`].
pub trait ChannelWrite: sealed::Sealed + Clone + Send + Sync + Debug + 'static {
    /// Returns the index of the channel in its state.
    fn channel(&self) -> usize;

    /// Returns the name of the channel.
    fn name(&self) -> &str;

    /// Returns true if the write replaces the value instead of being merged into it.
    fn is_overwrite(&self) -> bool;

    /// Returns true if the channel accepts several writes per superstep, because it has a reducer or is a topic.
    fn is_merged(&self) -> bool;

    /// Returns true if the channel is secret, so that no stream or response shows its value.
    fn is_secret(&self) -> bool {
        false
    }

    /// Returns the written value in a form that the engine can encode. Returns `None` for an untracked channel.
    fn stored(&self) -> Option<&dyn Stored>;

    /// Returns the written value as JSON. Returns null if [`stored`](Self::stored) returns `None`, or if the channel is
    /// secret. The JSON of an overwrite is `{"$overwrite": value}`.
    fn to_json(&self) -> Result<Value, serde_json::Error> {
        let Some(value) = self.stored().filter(|_| !self.is_secret()) else { return Ok(Value::Null) };
        let value = value.to_json()?;
        if self.is_overwrite() {
            return Ok(Value::Object(Map::from_iter([("$overwrite".to_owned(), value)])));
        }
        Ok(value)
    }

    /// Returns the value without its channel. Another state can convert it to a write with
    /// [`from_any`](Self::from_any).
    fn into_any(self) -> Box<dyn Any + Send>;

    /// Creates a write to the channel with the index `channel` from the result of [`into_any`](Self::into_any). Returns
    /// `None` if the types differ, which cannot happen in derived states.
    fn from_any(channel: usize, spec: &ChannelSpec, write: Box<dyn Any + Send>) -> Option<Self>;
}

/// A state whose channels are known at compile time. Derive it with `#[derive(State)]`, whose page describes the
/// attributes and the generated items.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a state",
    label = "not a state",
    note = "derive it: `#[derive(State, Clone, Debug, Default)]`"
)]
pub trait State: Values + HasInitial {
    /// A struct with a typed key for each channel. If the state flattens another one, the struct dereferences to the
    /// keys of the flattened state.
    type Channels: 'static;

    /// The names and kinds of the channels.
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

/// A state with an initial value. Every type that implements `Default` implements this trait.
#[diagnostic::on_unimplemented(
    message = "the state `{Self}` has no initial value",
    label = "needs `Default`",
    note = "derive `Default` for it and for the types of its fields (an enum marks a variant with `#[default]`), or write `impl Default`"
)]
pub trait Initial: Default {}

#[diagnostic::do_not_recommend]
impl<S: Default> Initial for S {}

/// A derived state with an initial value. If `Default` is missing, this trait makes the compiler report the error only
/// once.
#[doc(hidden)]
pub trait HasInitial: Initial {}

/// A state that contains the channels of `Part`: `Part` itself, or a state that flattens it.
#[diagnostic::on_unimplemented(
    message = "the state `{Self}` does not contain the channels of `{Part}`",
    note = "extend it: a field of type `{Part}` with `#[state(flatten)]`"
)]
pub trait Contains<Part: Values>: Values {
    /// The index of the first channel of `Part` in this state. `None` if it is known only at run time.
    #[doc(hidden)]
    const FIRST: Option<usize>;
    /// Returns the contained state.
    fn part(&self) -> &Part;
    /// Converts a write of the contained state into a write of the whole state.
    fn lift(write: Part::Write) -> Self::Write;
}
