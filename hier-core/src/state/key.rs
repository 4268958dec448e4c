//! Typed channel keys: `<Filing as State>::channels().artifact`.

use std::fmt;
use std::marker::PhantomData;

use super::{Contains, Values, Write};

/// A channel without a reducer: last value, ephemeral or untracked. One writer a step.
#[derive(Clone, Copy, Debug)]
pub struct Plain;

/// A channel with a reducer, or a topic: any number of writers a step.
#[derive(Clone, Copy, Debug)]
pub struct Reduced;

/// A channel that the engine alone writes.
#[derive(Clone, Copy, Debug)]
pub struct Internal;

/// What the key of a channel that can be written is: [`Plain`] or [`Reduced`].
#[doc(hidden)]
#[diagnostic::on_unimplemented(
    message = "this channel is the engine's own: nodes cannot write it, and subagents cannot give it back",
    label = "the engine's own"
)]
pub trait Open {}

impl Open for Plain {}
impl Open for Reduced {}

/// The key of a channel of type `T` that the state `S` declares. `K` is [`Plain`], [`Reduced`] or [`Internal`].
///
/// Macros name channels as fields of `S::channels()`, so that a misspelt name is the compiler's own error at the user's
/// token.
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
    /// Used by the derive.
    #[doc(hidden)]
    pub const fn new(name: &'static str, get: fn(&S) -> &T, set: fn(Write<T>) -> S::Write) -> Self {
        Self { name, get, set, kind: PhantomData }
    }

    /// The channel's name.
    pub const fn name(&self) -> &'static str {
        self.name
    }

    /// The same, as a part of what a node is given: what is managed is none.
    #[doc(hidden)]
    pub const fn input_name(&self) -> Option<&'static str> {
        Some(self.name)
    }

    /// The channel's value in `state`.
    pub fn get<'a, Whole: Contains<S>>(&self, state: &'a Whole) -> &'a T {
        (self.get)(state.part())
    }

    /// A write of the channel.
    pub fn write<Whole: Contains<S>>(&self, value: impl Into<Write<T>>) -> Whole::Write {
        Whole::lift((self.set)(value.into()))
    }
}

/// A channel that a node, an input or an update may write: every channel but a managed one.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is managed by the engine and cannot be written",
    label = "cannot be written"
)]
pub trait WritableChannel {
    /// The state that declares the channel.
    type State: Values;
    /// The type of the channel's value.
    type Value;

    /// A write of the channel.
    fn write_of(&self, value: Self::Value) -> <Self::State as Values>::Write;
}

impl<S: Values, T, K: Open> WritableChannel for Channel<S, T, K> {
    type State = S;
    type Value = T;

    fn write_of(&self, value: T) -> S::Write {
        (self.set)(Write::Merge(value))
    }
}

/// A channel that several nodes of one step may write: one with a reducer, or a topic.
#[diagnostic::on_unimplemented(
    message = "two nodes that always run in the same step both write this channel, which has no reducer",
    label = "also written by another node of the same step",
    note = "give the channel a reducer, or let one of the nodes run after the other"
)]
pub trait MayHaveTwoWriters {}

impl<S: Values, T> MayHaveTwoWriters for Channel<S, T, Reduced> {}

/// A channel that can be an inbox: one with a reducer, or a topic.
#[diagnostic::on_unimplemented(
    message = "the inbox of a graph must be a channel with a reducer",
    label = "holds one value, and several messages may come at once",
    note = "give the channel a reducer, as `#[reducer(append)]`, or make it a topic"
)]
pub trait TakesMail {
    /// The name of the channel.
    fn channel_name(&self) -> &'static str;
}

impl<S: Values, T> TakesMail for Channel<S, T, Reduced> {
    fn channel_name(&self) -> &'static str {
        self.name
    }
}

/// The key of a managed field: it can be read and never written.
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
    /// Used by the derive.
    #[doc(hidden)]
    pub const fn new(name: &'static str, get: fn(&S) -> &T) -> Self {
        Self { name, get }
    }

    /// The field's name.
    pub const fn name(&self) -> &'static str {
        self.name
    }

    #[doc(hidden)]
    pub const fn input_name(&self) -> Option<&'static str> {
        None
    }

    /// The field's value in `state`.
    pub fn get<'a, Whole: Contains<S>>(&self, state: &'a Whole) -> &'a T {
        (self.get)(state.part())
    }
}
