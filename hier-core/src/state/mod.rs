//! Typed state: what `#[derive(State)]` implements, and what the engine needs of a state.
//!
//! A state is a set of named [channels](crate::channel). Nodes borrow the state and return *updates*: lists of writes.
//! The engine applies the writes of a step, in place, when the step has ended.
//!
//! A [view](derive@crate::prelude::View) is a struct of some of a state's fields, by their names: what a node takes, or the
//! input or the output of a graph.

mod conversation;
#[doc(hidden)]
pub mod derived;
mod dynamic;
mod key;
mod managed;
pub(crate) mod merge;
mod persist;
pub(crate) mod schema;
pub(crate) mod sealed;
mod share;
mod update;

use std::any::Any;
use std::fmt::Debug;

use serde_json::{Map, Value};

pub use conversation::{Conversation, wants_tools};
pub use dynamic::{Builtin, DynState, DynUpdate, DynWrite, Schema};
pub use key::{Channel, Internal, ManagedValue, MayHaveTwoWriters, Open, Plain, Reduced, TakesMail, WritableChannel};
pub use managed::{IsLastStep, RemainingSteps, Steps};
pub use persist::{Carried, Migration, Parameter, Persist, Stored};
pub use share::SharesWith;
#[doc(hidden)]
pub use share::{Agree, Empty, Fork, I, Leaf, O, SameType, nibbles};
pub use update::{IntoWrites, Update, Writes};

pub use crate::reducer::{Overwrite, Write};

use crate::channel::{ChannelSpec, Table};
use crate::checkpoint::CodecError;
use crate::checkpoint::delta::Rule;
use crate::reducer::ReduceError;

/// The values of a graph's channels: what the engine needs of a state, derived or dynamic.
///
/// Implemented by `#[derive(State)]` and by [`DynState`]. Sealed: nobody else can.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not the state of a graph",
    label = "not a state",
    note = "derive it: `#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]`"
)]
pub trait Values: sealed::Sealed + Clone + Send + Sync + 'static {
    /// Whether the state has managed fields, or is to be told how far the run is for another reason.
    const MANAGED: bool = true;

    /// One write of one channel.
    type Write: ChannelWrite;
    /// The writes that a node returns, with a method for each channel.
    type Update: Update<State = Self>;

    /// Merges one write into its channel, in place.
    fn reduce(&mut self, write: Self::Write) -> Result<(), ReduceError>;

    /// Puts a channel back to its initial value: what happens to an ephemeral channel or a topic when a step ends.
    fn clear(&mut self, channel: usize);

    /// Sets the managed fields to the progress of the run. Called once before each step.
    fn set_steps(&mut self, steps: Steps);

    /// The channel with this index, if there is one: its name and kind.
    fn channel(&self, channel: usize) -> Option<&ChannelSpec>;

    /// The JSON Schema of the values of a channel; none if its type has none.
    fn channel_schema(channel: usize, generator: &mut schemars::SchemaGenerator) -> Option<schemars::Schema> {
        let _ = (channel, generator);
        None
    }

    /// The version of the state: what is stored by an older one is brought up to date by [`Self::MIGRATIONS`].
    const VERSION: u32 = 1;
    /// The migrations of older versions. The last comes from the version before this one, the one before it from
    /// the version before that.
    const MIGRATIONS: &'static [Migration] = &[];
    /// A number that is another one as soon as a channel is added or removed or has another type. 0 if nothing is known.
    const FINGERPRINT: u64 = 0;

    /// A channel's value, to be stored or shown; `None` if the channel has no value or is untracked.
    fn stored(&self, channel: usize) -> Option<&dyn Stored>;

    /// Takes a channel's value from what was stored.
    fn load(&mut self, channel: usize, bytes: &[u8]) -> Result<(), CodecError>;

    /// Merges a part of a channel's value by the rule under which it was stored, which is not that of its reducer today. Returns false
    /// if the type of the channel cannot be merged in this way.
    #[doc(hidden)]
    fn merge_stored(&mut self, channel: usize, rule: &Rule<'_>, bytes: &[u8]) -> Result<bool, CodecError>;

    /// A write of a channel, from what was stored.
    fn write_from(&self, channel: usize, overwrite: bool, bytes: &[u8]) -> Result<Self::Write, CodecError>;

    /// A channel's value as JSON; `None` if the channel has no value or is untracked.
    fn to_json(&self, channel: usize) -> Result<Option<Value>, serde_json::Error> {
        self.stored(channel).map(Stored::to_json).transpose()
    }

    /// A channel's value, to hand to a subgraph; `None` if the channel has no value.
    fn get_any(&self, channel: usize) -> Option<&dyn Any>;

    /// Takes a channel's value over from another state. Does nothing if the types differ, which the compiler has
    /// ruled out for derived states.
    fn set_any(&mut self, channel: usize, value: &dyn Any);
}

/// One write of one channel, as the engine sees it. Sealed, like [`Values`].
pub trait ChannelWrite: sealed::Sealed + Clone + Send + Sync + Debug + 'static {
    /// The index of the channel in the table of its state.
    fn channel(&self) -> usize;

    /// The name of the channel.
    fn name(&self) -> &str;

    /// Whether the write replaces the channel's value instead of being merged into it.
    fn is_overwrite(&self) -> bool;

    /// Returns true if the channel has a reducer, so that several writes of one task count.
    fn is_merged(&self) -> bool;

    /// The written value, to be stored or shown; `None` if the channel is untracked.
    fn stored(&self) -> Option<&dyn Stored>;

    /// The written value as JSON; an overwrite is `{"$overwrite": value}`.
    fn to_json(&self) -> Result<Value, serde_json::Error> {
        let Some(value) = self.stored() else { return Ok(Value::Null) };
        let value = value.to_json()?;
        if self.is_overwrite() {
            return Ok(Value::Object(Map::from_iter([("$overwrite".to_owned(), value)])));
        }
        Ok(value)
    }

    /// The write without its channel, to hand to the state of another graph.
    fn into_any(self) -> Box<dyn Any + Send>;

    /// The write of a channel of this state, from a write that another state handed over; `None` if the types differ,
    /// which the compiler has ruled out for derived states.
    fn from_any(channel: usize, write: Box<dyn Any + Send>) -> Option<Self>;
}

/// A state whose channels are known to the compiler. Implemented by `#[derive(State)]`.
///
/// What can stand above its fields, and what the derive makes, is on [its page](derive@crate::prelude::State).
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a state",
    label = "not a state",
    note = "derive it: `#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]`"
)]
pub trait State: Values + Initial {
    /// The typed keys of the channels: one field a channel, those of a flattened state through `Deref`.
    type Channels: 'static;

    /// The channel table.
    const CHANNELS: Table;
    /// The typed keys of the channels, as a constant.
    #[doc(hidden)]
    const KEYS: &'static Self::Channels;

    /// The typed keys of the channels.
    fn channels() -> &'static Self::Channels {
        Self::KEYS
    }

    /// An update that writes nothing yet.
    fn update() -> Self::Update {
        Self::Update::default()
    }
}

/// A state with a value to begin with: one that is `Default`.
#[diagnostic::on_unimplemented(
    message = "the state `{Self}` has no value to begin with",
    label = "needs `Default`",
    note = "derive `Default` for it and for the types of its fields (an enum marks a variant with `#[default]`), or write `impl Default`"
)]
pub trait Initial: Default {}

#[diagnostic::do_not_recommend]
impl<S: Default> Initial for S {}

/// A state that contains the channels of `Part`: itself, or one that it flattens.
#[diagnostic::on_unimplemented(
    message = "the state `{Self}` does not contain the channels of `{Part}`",
    note = "extend it: a field of type `{Part}` with `#[state(flatten)]`"
)]
pub trait Contains<Part: Values>: Values {
    /// The part.
    fn part(&self) -> &Part;
    /// A write of the part as a write of the whole.
    fn lift(write: Part::Write) -> Self::Write;
}
