//! Finds out at compile time whether the values of a channel are text-free. Used by the macro.

use std::marker::PhantomData;

use schemars::JsonSchema;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::builder::AgentBuilder;
use crate::text_free::TextFree;
use hier_core::state::{Channel, Values};

/// A channel, for the question whether its values are text-free. Method resolution answers it: [`IsTextFree`] applies to
/// channels of text-free types, [`MayHaveText`] to references to any.
#[doc(hidden)]
#[derive(Debug)]
pub struct ChannelProbe<K>(PhantomData<fn() -> K>);

/// Asks about a channel.
#[doc(hidden)]
pub const fn probe<K>(_: &K) -> ChannelProbe<K> {
    ChannelProbe(PhantomData)
}

/// An answer at compile time.
#[doc(hidden)]
pub trait Answered {
    /// The answer.
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

    /// Marks the answer of an agent as text-free.
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

/// Any channel.
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

/// Returns the answer of a closure, which is not called: its type has the answer.
#[doc(hidden)]
pub const fn answered<A: Answered, F: FnOnce() -> A>(_: &F) -> bool {
    A::HOLDS
}
