//! Functions that the code of `#[derive(State)]` and `#[derive(View)]` calls, so that it stays short.

use std::any::Any;

use super::{Contains, Initial, Persist, Stored, Update, Values, WritableChannel, Write, Writes};
use crate::channel::ChannelSpec;
use crate::checkpoint::{CodecError, codec};

/// A write without its channel.
pub type BoxedWrite = Box<dyn Any + Send>;

/// Sets what an update writes to a channel of `Part`.
#[inline]
pub fn set<Part: Values, U: Update>(mut update: U, write: Part::Write) -> U
where
    U::State: Contains<Part>,
{
    update.writes_mut().set(<U::State as Contains<Part>>::lift(write));
    update
}

/// The writes of every channel of a flattened part.
pub fn lift<Part: Values, Whole: Values>(
    writes: &mut Writes<Whole>,
    part: Part,
    lift: impl Fn(Part::Write) -> Whole::Write,
) where
    Part::Update: From<Part>,
{
    for write in Part::Update::from(part).into_writes() {
        writes.push(lift(write));
    }
}

/// The value of a view's field. A function of its own, so that what is wrong with a field is not shown in the standard
/// library's source.
pub fn cloned<T: Clone>(value: &T) -> T {
    value.clone()
}

/// The write of a view's field.
pub fn write_field<Whole, Part, K>(writes: &mut Writes<Whole>, key: &K, value: K::Value)
where
    Whole: Contains<Part>,
    Part: Contains<K::State>,
    K: WritableChannel,
{
    writes.push(Whole::lift(Part::lift(key.write_of(value))));
}

/// Takes a write's channel off. A plain channel's value is boxed as a [`Write::Merge`], so that the states on both sides
/// may treat the channel differently.
pub fn boxed<T: Send + 'static>(write: Write<T>) -> BoxedWrite {
    Box::new(write)
}

/// The write of a reduced channel.
pub fn unboxed<T: 'static>(write: BoxedWrite) -> Option<Write<T>> {
    write.downcast().ok().map(|write| *write)
}

/// The write of a plain channel.
pub fn unboxed_value<T: 'static>(write: BoxedWrite) -> Option<T> {
    unboxed(write).map(Write::into_value)
}

/// A value that can be stored.
pub fn stored<T: Persist>(value: &T) -> &dyn Stored {
    value
}

/// Decodes a stored value. The derived code calls no other function with this bound, so that a type without it is reported
/// once.
pub fn load<T: Persist>(bytes: &[u8]) -> Result<T, CodecError> {
    codec::decode(bytes)
}

/// A stored write of a reduced channel.
pub fn load_write<T>(overwrite: bool, value: T) -> Write<T> {
    if overwrite { Write::Overwrite(value) } else { Write::Merge(value) }
}

/// The error for a stored value of a channel that this state does not store.
pub fn no_channel(channel: usize) -> CodecError {
    CodecError::new(format!("the state stores no channel with the number {channel}"))
}

/// The fingerprint of a state that flattens another.
pub const fn fingerprint(own: u64, flattened: u64) -> u64 {
    own.rotate_left(7) ^ flattened
}

/// Takes a value over from another state, if it has the same type.
pub fn copy<T: Clone + 'static>(to: &mut T, from: &dyn Any) {
    if let Some(from) = from.downcast_ref::<T>() {
        to.clone_from(from);
    }
}

/// Puts a channel back to what the state starts with.
pub fn reset<S: Values + Initial>(state: &mut S, channel: usize) {
    let initial = S::default();
    if let Some(value) = initial.get_any(channel) {
        state.set_any(channel, value);
    }
}

/// The name of one of a state's own channels.
pub fn name(own: &'static [ChannelSpec], channel: usize) -> &'static str {
    own.get(channel).map_or("", |channel| &channel.name)
}
