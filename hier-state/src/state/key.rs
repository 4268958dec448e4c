//! Typed keys of channels: `<Filing as State>::channels().artifact`.

use std::fmt;
use std::marker::PhantomData;

use super::{Contains, Values, Write};

/// The kind of a channel without a reducer. Such a channel allows one writer per superstep.
#[derive(Clone, Copy, Debug)]
pub struct Plain;

/// The kind of a channel with a reducer, or of a topic. Such a channel allows any number of writers per superstep.
#[derive(Clone, Copy, Debug)]
pub struct Reduced;

/// The kind of a channel that only the engine writes.
#[derive(Clone, Copy, Debug)]
pub struct Internal;

/// A kind of channel that nodes can write: [`Plain`] or [`Reduced`].
#[doc(hidden)]
#[diagnostic::on_unimplemented(
    message = "only the engine writes this channel: nodes cannot write it, and subagents cannot return it",
    label = "written by the engine"
)]
pub trait Open {}

impl Open for Plain {}
impl Open for Reduced {}

/// A typed key of a channel. The type parameters are the state `S`, the type `T` of the value, and the kind `K` of the
/// channel ([`Plain`], [`Reduced`] or [`Internal`]).
///
/// The keys of a state are the fields of `S::channels()`.
pub struct Channel<S: Values, T, K> {
    name: &'static str,
    get: fn(&S) -> &T,
    set: fn(Write<T>) -> S::Write,
    kind: PhantomData<fn() -> K>,
}

impl<S: Values, T, K> Clone for Channel<S, T, K> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<S: Values, T, K> Copy for Channel<S, T, K> {}

impl<S: Values, T, K> fmt::Debug for Channel<S, T, K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Channel").field(&self.name).finish()
    }
}

impl<S: Values, T, K> Channel<S, T, K> {
    #[doc(hidden)]
    pub const fn new(name: &'static str, get: fn(&S) -> &T, set: fn(Write<T>) -> S::Write) -> Self {
        Self { name, get, set, kind: PhantomData }
    }

    /// Returns the name of the channel.
    pub const fn name(&self) -> &'static str {
        self.name
    }

    /// Returns the value of the channel in a state.
    pub fn get<'a, Outer: Contains<S>>(&self, state: &'a Outer) -> &'a T {
        (self.get)(state.part())
    }

    /// Returns a write that replaces the value of a channel with a reducer.
    pub(super) fn overwrite(&self, value: T) -> S::Write {
        (self.set)(Write::Overwrite(value))
    }

    /// Creates a write of `value` to the channel.
    pub fn write<Outer: Contains<S>>(&self, value: impl Into<Write<T>>) -> Outer::Write {
        Outer::lift((self.set)(value.into()))
    }
}

/// A channel that nodes, inputs and updates can write: every channel except those that only the engine writes.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is managed by the engine and cannot be written",
    label = "cannot be written"
)]
pub trait WritableChannel {
    /// The state that declares the channel.
    type State: Values;
    /// The type of the value.
    type Value;

    /// Creates a write of `value` to the channel. If the channel has a reducer, the reducer merges the value.
    fn write_of(&self, value: Self::Value) -> <Self::State as Values>::Write;
}

impl<S: Values, T, K: Open> WritableChannel for Channel<S, T, K> {
    type State = S;
    type Value = T;

    fn write_of(&self, value: T) -> S::Write {
        (self.set)(Write::Merge(value))
    }
}

/// A channel that several nodes can write in one superstep, because it has a reducer or is a topic.
#[diagnostic::on_unimplemented(
    message = "two nodes that run in the same step both write this channel, which has no reducer",
    label = "also written by another node of the same step",
    note = "give the channel a reducer, or let one of the nodes run after the other"
)]
pub trait MayHaveTwoWriters {}

impl<S: Values, T> MayHaveTwoWriters for Channel<S, T, Reduced> {}

/// A channel that can be the `inbox` of a graph, because it has a reducer or is a topic.
#[diagnostic::on_unimplemented(
    message = "the inbox of a graph must be a channel with a reducer",
    label = "holds one value, and several messages may come at once",
    note = "give the channel a reducer, as `#[reducer(append)]`, or make it a topic"
)]
pub trait InboxChannel {
    /// Returns the name of the channel.
    fn channel_name(&self) -> &'static str;
}

impl<S: Values, T> InboxChannel for Channel<S, T, Reduced> {
    fn channel_name(&self) -> &'static str {
        self.name
    }
}

/// The key of a managed field, which only the engine sets.
pub struct ManagedValue<S: Values, T> {
    name: &'static str,
    get: fn(&S) -> &T,
}

impl<S: Values, T> Clone for ManagedValue<S, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<S: Values, T> Copy for ManagedValue<S, T> {}

impl<S: Values, T> fmt::Debug for ManagedValue<S, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ManagedValue").field(&self.name).finish()
    }
}

impl<S: Values, T> ManagedValue<S, T> {
    #[doc(hidden)]
    pub const fn new(name: &'static str, get: fn(&S) -> &T) -> Self {
        Self { name, get }
    }

    /// Returns the name of the field.
    pub const fn name(&self) -> &'static str {
        self.name
    }

    /// Returns the value of the managed field in a state.
    pub fn get<'a, Outer: Contains<S>>(&self, state: &'a Outer) -> &'a T {
        (self.get)(state.part())
    }
}
