//! Functions that the code of `#[derive(State)]` and `#[derive(View)]` calls.

use std::any::Any;

use super::{Contains, Initial, Persist, Stored, Update, Values, Write, Writes};
use crate::channel::ChannelSpec;
use crate::checkpoint::{CodecError, codec};
use crate::reducer::{ReduceError, ReducerOutput};

/// A write without its channel.
pub type BoxedWrite = Box<dyn Any + Send>;

/// Adds a write of a channel of `Part` to an update.
#[inline]
pub fn set<Part: Values, U: Update>(mut update: U, write: Part::Write) -> U
where
    U::State: Contains<Part>,
{
    update.writes_mut().set(<U::State as Contains<Part>>::lift(write));
    update
}

/// Adds the writes of all channels of a flattened part.
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

/// Clones the value of a view's field. The compiler reports a wrong field here, and not in the standard library.
pub fn cloned<T: Clone>(value: &T) -> T {
    value.clone()
}

/// Boxes a write without its channel. The value of a plain channel is a [`Write::Merge`], so that another state can treat the channel
/// differently.
pub fn boxed<T: Send + 'static>(write: Write<T>) -> BoxedWrite {
    Box::new(write)
}

/// Returns the write of a reduced channel.
pub fn unboxed<T: 'static>(write: BoxedWrite) -> Option<Write<T>> {
    write.downcast().ok().map(|write| *write)
}

/// Returns the write of a plain channel.
pub fn unboxed_value<T: 'static>(write: BoxedWrite) -> Option<T> {
    unboxed(write).map(Write::into_value)
}

/// Checks the type of a channel, at the user's token. Code that depends on the check reports nothing if it fails.
pub const fn channel_type<T: Clone + Persist>() {}

/// Checks what a state needs besides its channels. Code that depends on the check reports nothing if it fails.
pub const fn state_type<S: Clone + Initial>() {}

/// Names a checked type in code that depends on the check. If the check failed, the type is unknown, and the compiler neither reports nor
/// evaluates this code.
pub const fn known<T>() {}

/// Returns a value as a [`Stored`] one.
pub fn stored<T: Persist>(value: &T) -> &dyn Stored {
    value
}

/// Decodes a stored value.
pub fn load<T: Persist>(bytes: &[u8]) -> Result<T, CodecError> {
    codec::decode(bytes)
}

/// Returns a write of a reduced channel from its stored form.
pub fn load_write<T>(overwrite: bool, value: T) -> Write<T> {
    if overwrite { Write::Overwrite(value) } else { Write::Merge(value) }
}

/// Returns the error for a channel that this state does not store.
pub fn no_channel(channel: usize) -> CodecError {
    CodecError::new(format!("the state stores no channel with the number {channel}"))
}

/// Returns the fingerprint of a state that flattens another.
pub const fn fingerprint(own: u64, flattened: u64) -> u64 {
    own.rotate_left(7) ^ flattened
}

/// Copies a value from another state if it has the same type.
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
    /// Merges the new value into the old one.
    fn merge(self, old: &mut T, new: T) -> Result<(), ReduceError>;
}

#[diagnostic::do_not_recommend]
impl<T, R: ReducerOutput, F: FnOnce(&mut T, T) -> R> CustomReducer<T> for F {
    fn merge(self, old: &mut T, new: T) -> Result<(), ReduceError> {
        self(old, new).outcome()
    }
}

/// Merges a value with the user's function.
pub fn merge_with<T>(old: &mut T, new: T, reducer: impl CustomReducer<T>) -> Result<(), ReduceError> {
    reducer.merge(old, new)
}

/// Returns the name of the channel with this index among `own`, the channels that the state itself declares.
pub fn name(own: &'static [ChannelSpec], channel: usize) -> &'static str {
    own.get(channel).map_or("", |channel| &channel.name)
}
