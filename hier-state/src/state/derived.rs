//! Functions that the code of `#[derive(State)]` and `#[derive(View)]` calls.

use std::any::Any;

use super::{Contains, Initial, Persist, Stored, Update, Values, Write, Writes};
use crate::channel::ChannelSpec;
use crate::checkpoint::{CodecError, codec};
use crate::message::Messages;
use crate::reducer::{ReduceError, ReducerOutput};

/// A [`Write`] whose channel and value type are not known from its Rust type.
pub type BoxedWrite = Box<dyn Any + Send>;

/// Adds `write` to `update`. The write belongs to the state `Part`. The update belongs to a state that contains `Part`.
#[inline]
pub fn set<Part: Values, U: Update>(mut update: U, write: Part::Write) -> U
where
    U::State: Contains<Part>,
{
    update.writes_mut().set(<U::State as Contains<Part>>::lift(write));
    update
}

/// Adds the writes of all channels of `part`, a flattened state, to `writes`. `lift` converts each write to a write of
/// the outer state.
pub fn lift<Part: Values, Outer: Values>(
    writes: &mut Writes<Outer>,
    part: Part,
    lift: impl Fn(Part::Write) -> Outer::Write,
) where
    Part::Update: From<Part>,
{
    for write in Part::Update::from(part).into_writes() {
        writes.push(lift(write));
    }
}

/// Clones the value of a view's field. If the field has the wrong type, the compiler reports this function instead of
/// one in the standard library.
pub fn cloned<T: Clone>(value: &T) -> T {
    value.clone()
}

/// Boxes a write without its channel. For a channel without a reducer, pass the value as [`Write::Merge`]. The boxed
/// write then also fits a channel of another state that has a reducer.
pub fn boxed<T: Send + 'static>(write: Write<T>) -> BoxedWrite {
    Box::new(write)
}

/// Converts a boxed write back to a write of a channel with a reducer. Returns `None` if the value is not a `T`.
pub fn unboxed<T: 'static>(write: BoxedWrite) -> Option<Write<T>> {
    write.downcast().ok().map(|write| *write)
}

/// Converts a boxed write back to the value for a channel without a reducer. Returns `None` if the value is not a `T`.
pub fn unboxed_value<T: 'static>(write: BoxedWrite) -> Option<T> {
    unboxed(write).map(Write::into_value)
}

/// Checks at compile time that `T` can be the type of a stored channel. Generated code calls this function with a type
/// that the user wrote, so that the compiler reports an error at this type.
pub const fn channel_type<T: Clone + Persist>() {}

/// Checks at compile time that `T` can be the type of an untracked channel. Generated code calls this function with a
/// type that the user wrote, so that the compiler reports an error at this type.
pub const fn untracked_type<T: Clone + Untracked>() {}

/// The type of an untracked channel.
#[diagnostic::on_unimplemented(
    message = "a channel of type `{Self}` cannot be shared between threads",
    label = "cannot be shared",
    note = "the tasks of a superstep run on several threads, so the type must be `Send + Sync + 'static`: use `Arc` for `Rc`, and `Mutex` \
            for `RefCell`"
)]
pub trait Untracked: Send + Sync + 'static {}

#[diagnostic::do_not_recommend]
impl<T: Send + Sync + 'static> Untracked for T {}

/// Checks at compile time that `S` implements the traits that a state needs. Generated code calls this function with a
/// type that the user wrote, so that the compiler reports an error at this type.
pub const fn state_type<S: Clone + Initial>() {}

/// Mentions a type whose check can fail. If the check has failed, the compiler does not know the type, and reports no
/// errors for the code that calls this function.
pub const fn known<T>() {}

/// Returns a reference to the value as a trait object.
pub fn stored<T: Persist>(value: &T) -> &dyn Stored {
    value
}

/// Decodes a stored value.
pub fn load<T: Persist>(bytes: &[u8]) -> Result<T, CodecError> {
    codec::decode(bytes)
}

/// Creates a write of a channel with a reducer. `value` is the decoded value of the stored write. `overwrite` is true
/// if the stored write replaces the value of the channel.
pub fn load_write<T>(overwrite: bool, value: T) -> Write<T> {
    if overwrite { Write::Overwrite(value) } else { Write::Merge(value) }
}

/// Creates the error for a channel index that the state does not store.
pub fn no_channel(channel: usize) -> CodecError {
    CodecError::new(format!("the state stores no channel with the number {channel}"))
}

/// Combines the fingerprint of a state's own channels with the fingerprint of the state that it flattens.
pub const fn fingerprint(own: u64, flattened: u64) -> u64 {
    own.rotate_left(7) ^ flattened
}

/// Copies the value `from` to `to`. Does nothing if `from` is not a `T`.
pub fn copy<T: Clone + 'static>(to: &mut T, from: &dyn Any) {
    if let Some(from) = from.downcast_ref::<T>() {
        to.clone_from(from);
    }
}

/// Resets a channel to its initial value.
pub fn reset<S: Values + Initial>(state: &mut S, channel: usize) {
    let initial = S::default();
    if let Some(value) = initial.get_any(channel) {
        state.set_any(channel, value);
    }
}

/// The function of `#[reducer(with = path)]` for a channel of type `T`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a reducer of a channel of type `{T}`",
    label = "not a reducer of a `{T}`",
    note = "a reducer merges its second argument into the first: `fn(&mut {T}, {T})`, which may return a `Result<(), E>` whose error \
            implements `Display`"
)]
pub trait CustomReducer<T> {
    /// Merges the value `new` into the value `old`.
    fn merge(self, old: &mut T, new: T) -> Result<(), ReduceError>;
}

#[diagnostic::do_not_recommend]
impl<T, R: ReducerOutput, F: FnOnce(&mut T, T) -> R> CustomReducer<T> for F {
    fn merge(self, old: &mut T, new: T) -> Result<(), ReduceError> {
        self(old, new).outcome()
    }
}

/// Merges the value `new` into the value `old` with the custom reducer of a channel.
pub fn merge_with<T>(old: &mut T, new: T, reducer: impl CustomReducer<T>) -> Result<(), ReduceError> {
    reducer.merge(old, new)
}

/// Returns the value of a channel with the reducer `messages`. Such a channel has the type [`Messages`]. The function
/// accepts every type `T`, so that the compiler reports a wrong type at the attribute `reducer` and not here.
pub fn as_messages<T: 'static>(value: &T) -> &Messages {
    let value: &dyn Any = value;
    value.downcast_ref().unwrap_or_else(|| unreachable!("{NOT_MESSAGES}"))
}

/// Converts a conversation to the value of a channel with the reducer `messages`.
pub fn from_messages<T: 'static>(messages: Messages) -> T {
    let mut messages = Some(messages);
    let value: &mut dyn Any = &mut messages;
    let value = value.downcast_mut::<Option<T>>().and_then(Option::take);
    value.unwrap_or_else(|| unreachable!("{NOT_MESSAGES}"))
}

const NOT_MESSAGES: &str = "a channel with the reducer `messages` is a `Messages`";

/// Returns the name of the channel with this index among `own`, the channels that the state itself declares. Returns an
/// empty string if no channel has this index.
pub fn name(own: &'static [ChannelSpec], channel: usize) -> &'static str {
    own.get(channel).map_or("", |channel| &channel.name)
}
