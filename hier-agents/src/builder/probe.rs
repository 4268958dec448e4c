//! Finds out at compile time whether the values of a channel are text-free. Used by the macro.

use std::marker::PhantomData;

use schemars::JsonSchema;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::builder::AgentBuilder;
use crate::text_free::TextFree;
use hier_core::state::{Channel, Values};

/// A wrapper of a channel type, with which the macro finds out if the channel's values are text-free. The compiler
/// selects a method of [`IsTextFree`] if they are, and otherwise a method of [`MayHaveText`].
#[doc(hidden)]
#[derive(Debug)]
pub struct ChannelProbe<K>(PhantomData<fn() -> K>);

/// Returns the wrapper for the type of this channel.
#[doc(hidden)]
pub const fn probe<K>(_: &K) -> ChannelProbe<K> {
    ChannelProbe(PhantomData)
}

/// A type that represents a boolean at compile time.
#[doc(hidden)]
pub trait Answered {
    /// The boolean that the type represents.
    const HOLDS: bool;
}

#[doc(hidden)]
#[derive(Debug)]
pub struct Yes;
#[doc(hidden)]
#[derive(Debug)]
pub struct No;

impl Answered for Yes {
    const HOLDS: bool = true;
}

impl Answered for No {
    const HOLDS: bool = false;
}

/// A channel of a text-free type.
#[doc(hidden)]
pub trait IsTextFree {
    /// The type of the values.
    type Value: JsonSchema + DeserializeOwned + Serialize;

    fn is_text_free(&self) -> Yes {
        Yes
    }

    /// Returns the builder `agent`, in which the typed answer is declared text-free.
    fn seal<S: Values, C: Send + Sync + 'static>(&self, agent: AgentBuilder<S, C>) -> AgentBuilder<S, C> {
        agent.sealed_answer::<Self::Value>()
    }
}

impl<S, T, K> IsTextFree for ChannelProbe<Channel<S, T, K>>
where
    S: Values,
    T: TextFree + JsonSchema + DeserializeOwned + Serialize,
{
    type Value = T;
}

/// A channel of any type. The compiler selects these methods for a channel whose type is not text-free.
#[doc(hidden)]
pub trait MayHaveText {
    fn is_text_free(&self) -> No {
        No
    }

    fn seal<S: Values, C>(&self, agent: AgentBuilder<S, C>) -> AgentBuilder<S, C> {
        agent
    }
}

impl<K> MayHaveText for &ChannelProbe<K> {}

/// Returns the boolean that the return type `A` of the closure represents. Does not call the closure.
#[doc(hidden)]
pub const fn answered<A: Answered, F: FnOnce() -> A>(_: &F) -> bool {
    A::HOLDS
}
