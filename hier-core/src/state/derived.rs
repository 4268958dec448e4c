//! What the code of `#[derive(State)]` and `#[derive(View)]` calls, so that it is short itself.

use std::any::Any;

use serde_json::Value;

use super::{Contains, Persist, Update, Values, WritableChannel, Write, Writes};
use crate::channel::ChannelSpec;

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

/// A value as JSON, or why it has none.
pub type Json = Result<Value, serde_json::Error>;

/// A persisted value as JSON.
pub fn json<T: Persist>(value: &T) -> Json {
    serde_json::to_value(value)
}

/// Takes a value over from another state, if it has the same type.
pub fn copy<T: Clone + 'static>(to: &mut T, from: &dyn Any) {
    if let Some(from) = from.downcast_ref::<T>() {
        to.clone_from(from);
    }
}

/// Puts a channel back to what the state starts with.
pub fn reset<S: Values + Default>(state: &mut S, channel: usize) {
    let initial = S::default();
    if let Some(value) = initial.get_any(channel) {
        state.set_any(channel, value);
    }
}

/// The name of one of a state's own channels.
pub fn name(own: &'static [ChannelSpec], channel: usize) -> &'static str {
    own.get(channel).map_or("", |channel| &channel.name)
}
