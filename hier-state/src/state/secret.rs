//! Secret channels: the checks of the macros, and the placeholder for the values.

use std::fmt::{self, Debug};
use std::marker::PhantomData;
use std::ops::Deref;
use std::sync::Arc;

use super::Values;
use super::derived::load;
use super::fields::Fields;
use super::{Persist, Write};
use hier_spec::trust::CONVERSATION;

use crate::channel::{ChannelSpec, Table};
use crate::checkpoint::CodecError;
use crate::reducer::{ReduceError, ReducerOutput, reduce};

/// The type of a secret channel when the compiler compares the channels of two states. It differs from `T`, so that a
/// state cannot show a channel that another state hides.
pub struct Secret<T>(PhantomData<fn() -> T>);

/// A type that gives access to channels of a state: the state itself, or a view of it.
pub trait Shows {
    /// The properties of the channels that the type shows.
    const SHOWS: ShownChannels;
}

/// The properties of the channels that a type shows. The constant [`Shows::SHOWS`] contains both properties, because
/// the compiler evaluates each constant again for each view.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShownChannels {
    /// True if one of the channels is secret.
    pub has_secret: bool,
    /// True if the type is a view with the conversation. Always false for a whole state.
    pub has_conversation: bool,
}

impl ShownChannels {
    /// The properties of a type that shows no channels.
    pub const NONE: Self = Self { has_secret: false, has_conversation: false };

    /// Returns the properties of a view. `shown` contains the name of each field of the view, and the hash of the name.
    pub const fn of<const N: usize>(channels: Table, fields: Fields, shown: [(&str, u64); N]) -> Self {
        let (mut all, mut at) = (Self::NONE, 0);
        while at < N {
            let (name, hash) = shown[at];
            all.has_secret |= channels.hides(name);
            all.has_conversation |= fields.is_channel(hash, CONVERSATION);
            at += 1;
        }
        all
    }

    /// Returns the properties of a whole state.
    pub const fn all(channels: Table) -> Self {
        Self { has_secret: channels.has_secret(), has_conversation: false }
    }
}

impl<T: Shows> Shows for &T {
    const SHOWS: ShownChannels = T::SHOWS;
}

/// An argument of a function that reads a state: a reference to the state, or a view that borrows from it.
pub trait BorrowedFrom<'a, S>: Shows + Sized {
    /// Creates the argument from the state.
    fn borrowed_from(state: &'a S) -> Self;
}

impl<'a, S: Shows> BorrowedFrom<'a, S> for &'a S {
    fn borrowed_from(state: &'a S) -> Self {
        state
    }
}

/// A stand-in for the type `T`. If `T` implements [`Shows`], its constant `SECRET` comes from `T`. Otherwise, the
/// constant is that of [`MayShow`].
#[derive(Debug)]
pub struct Shown<T>(PhantomData<T>);

impl<T: Shows> Shown<T> {
    /// True if `T` is a state or a view with a secret channel.
    pub const SECRET: bool = T::SHOWS.has_secret;
}

/// The fallback of [`Shown`] for types that are neither states nor views.
pub trait MayShow {
    /// Always false.
    const SECRET: bool = false;
}

impl<T> MayShow for Shown<T> {}

/// A placeholder for a secret value in the output of `Debug`.
pub struct Hidden;

impl Debug for Hidden {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[secret]")
    }
}

/// A stand-in for the type `T`, on which generated code calls `shown`. If `T` implements `Debug`, the compiler finds
/// the method here. Otherwise, it finds the method of [`Undebuggable`], to which this type dereferences.
#[derive(Debug)]
pub struct DebugOf<T>(PhantomData<T>);

impl<T> DebugOf<T> {
    /// The stand-in for `T`.
    pub const TYPE: Self = Self(PhantomData);
}

impl<T: Debug> DebugOf<T> {
    /// Returns the value as a `Debug` trait object.
    #[allow(clippy::unused_self)] // for method resolution
    pub fn shown<'a>(&self, value: &'a T) -> &'a dyn Debug {
        value
    }
}

/// The `Debug` output of a value without `Debug`.
struct Unshown;

impl Debug for Unshown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("_")
    }
}

/// The fallback of [`DebugOf`] for types without `Debug`.
#[derive(Debug)]
pub struct Undebuggable;

impl Undebuggable {
    /// Returns a placeholder that prints as `_`. The compiler selects this method if `T` does not implement `Debug`.
    #[allow(clippy::unused_self)]
    pub fn shown<'a, T>(&self, _: &'a T) -> &'a dyn Debug {
        &Unshown
    }
}

impl<T> Deref for DebugOf<T> {
    type Target = Undebuggable;

    fn deref(&self) -> &Undebuggable {
        &Undebuggable
    }
}

/// Decodes the value of a secret channel. Replaces the message of an error, because it may quote the value.
pub fn load_secret<T: Persist>(bytes: &[u8]) -> Result<T, CodecError> {
    load(bytes).map_err(|_| CodecError::new("the value does not fit the type of this secret channel"))
}

/// Applies a write of a secret channel. Replaces the message of the reducer's error, because it may quote the value.
pub fn reduce_secret<T, R: ReducerOutput>(
    value: &mut T,
    write: Write<T>,
    reducer: impl FnOnce(&mut T, T) -> R,
) -> Result<(), ReduceError> {
    reduce(value, write, reducer).map_err(|_| ReduceError::new("the reducer of this secret channel refused the value"))
}

/// Returns `error`, the error for a value that cannot be stored. Replaces the message if the channel is secret, because
/// the message may quote the value.
#[doc(hidden)]
pub fn unfit(is_secret: bool, error: CodecError) -> CodecError {
    if is_secret { CodecError::new("the value of this secret channel cannot be stored and read back") } else { error }
}

/// Returns a copy of the state for a stream. In the copy, secret channels have their initial values.
#[doc(hidden)]
pub fn without_secrets<S: Values>(state: &Arc<S>, channels: &[ChannelSpec]) -> Arc<S> {
    let mut state = state.clone();
    for (channel, _) in channels.iter().enumerate().filter(|(_, spec)| spec.secret) {
        Arc::make_mut(&mut state).clear(channel);
    }
    state
}
