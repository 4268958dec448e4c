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

/// The type of a secret channel in the comparison of two states, so that a state cannot show what another one hides.
pub struct Secret<T>(PhantomData<fn() -> T>);

/// A type that shows channels of a state: the state itself, or a view of it.
pub trait Shows {
    /// The properties of the channels. One constant, because the compiler checks each of them for each view.
    const SHOWS: ShownChannels;
}

/// The properties of the channels that a type shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShownChannels {
    /// True if one of the channels is secret.
    pub has_secret: bool,
    /// True for a view with the conversation. The whole state makes no claim.
    pub has_conversation: bool,
}

impl ShownChannels {
    /// No channels.
    pub const NONE: Self = Self { has_secret: false, has_conversation: false };

    /// The channels of these fields, by names and hashes of names.
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

    /// All channels of a state.
    pub const fn all(channels: Table) -> Self {
        Self { has_secret: channels.has_secret(), has_conversation: false }
    }
}

impl<T: Shows> Shows for &T {
    const SHOWS: ShownChannels = T::SHOWS;
}

/// An argument of a function over a state: the state, or a view that borrows from it.
pub trait BorrowedFrom<'a, S>: Shows + Sized {
    /// Borrows from the state.
    fn borrowed_from(state: &'a S) -> Self;
}

impl<'a, S: Shows> BorrowedFrom<'a, S> for &'a S {
    fn borrowed_from(state: &'a S) -> Self {
        state
    }
}

/// Represents a type. Its constant is that of [`Shows`] if the type implements it, and else that of [`MayShow`].
#[derive(Debug)]
pub struct Shown<T>(PhantomData<T>);

impl<T: Shows> Shown<T> {
    /// True if `T` is a state or a view with a secret channel.
    pub const SECRET: bool = T::SHOWS.has_secret;
}

/// The constant of types that show no state.
pub trait MayShow {
    /// False.
    const SECRET: bool = false;
}

impl<T> MayShow for Shown<T> {}

/// Stands in place of a secret value in the output of `Debug`.
pub struct Hidden;

impl Debug for Hidden {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[secret]")
    }
}

/// Represents a type with or without `Debug`. Method resolution finds the method of types with it before that of `Undebuggable`, to which
/// this dereferences.
#[derive(Debug)]
pub struct DebugOf<T>(PhantomData<T>);

impl<T> DebugOf<T> {
    /// The type.
    pub const TYPE: Self = Self(PhantomData);
}

impl<T: Debug> DebugOf<T> {
    /// Returns the value.
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
    /// Returns a placeholder.
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

/// Decodes the value of a secret channel. The decoder's own message may quote the value.
pub fn load_secret<T: Persist>(bytes: &[u8]) -> Result<T, CodecError> {
    load(bytes).map_err(|_| CodecError::new("the value does not fit the type of this secret channel"))
}

/// Applies a write of a secret channel. The reducer's own message may quote the value.
pub fn reduce_secret<T, R: ReducerOutput>(
    value: &mut T,
    write: Write<T>,
    reducer: impl FnOnce(&mut T, T) -> R,
) -> Result<(), ReduceError> {
    reduce(value, write, reducer).map_err(|_| ReduceError::new("the reducer of this secret channel refused the value"))
}

/// Returns the error of a value that cannot be stored. The message of the type's own code may quote a secret value.
#[doc(hidden)]
pub fn unfit(is_secret: bool, error: CodecError) -> CodecError {
    if is_secret { CodecError::new("the value of this secret channel cannot be stored and read back") } else { error }
}

/// Returns the state for a stream: secret channels have their initial values.
#[doc(hidden)]
pub fn without_secrets<S: Values>(state: &Arc<S>, channels: &[ChannelSpec]) -> Arc<S> {
    let mut state = state.clone();
    for (channel, _) in channels.iter().enumerate().filter(|(_, spec)| spec.secret) {
        Arc::make_mut(&mut state).clear(channel);
    }
    state
}
