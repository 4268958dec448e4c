//! The labels of a conversation, as a channel.

use std::fmt;

use hier_spec::trust::{CHANNEL, TrustLabels};
use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use hier_core::checkpoint::codec;
use hier_core::state::Values;

/// The trust labels of data that has entered a conversation: private, untrusted, or both. The channel `trust_labels`
/// has this type. A label stays for the whole thread, even if messages are removed or replaced by a summary.
///
/// An agent adds labels when it calls a labelled tool and when a subagent reports. A graph with `input: untrusted` adds
/// a label for its input messages. A `tools![…]` node records labels only if the state has this channel. In a custom
/// state without [`BaseState`](crate::BaseState), add the channel:
///
/// ```
/// use hier_agents::ConversationLabels;
/// use hier_agents::prelude::*;
///
/// #[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
/// struct Chat {
///     #[reducer(messages)]
///     messages: Messages,
///     #[reducer(with = ConversationLabels::merge)]
///     trust_labels: ConversationLabels,
/// }
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ConversationLabels(TrustLabels);

impl ConversationLabels {
    /// The labels of a conversation whose labels are not known.
    pub(crate) const ANY: Self = Self(TrustLabels::PRIVATE.with(TrustLabels::UNTRUSTED));

    /// Creates a record of these labels. Leaves out [`TrustLabels::SENDS`], which applies only to tools.
    pub const fn new(labels: TrustLabels) -> Self {
        Self(labels.read())
    }

    /// Returns the labels.
    pub const fn labels(self) -> TrustLabels {
        self.0
    }

    /// Returns true if private data has entered the conversation.
    pub const fn is_private(self) -> bool {
        self.0.is_private()
    }

    /// Returns true if untrusted text has entered the conversation.
    pub const fn is_untrusted(self) -> bool {
        self.0.is_untrusted()
    }

    /// Returns true if there are no labels.
    pub const fn is_empty(self) -> bool {
        self.0.is_empty()
    }

    /// Adds the labels in `more`. The channel uses this function as its reducer.
    #[allow(clippy::needless_pass_by_value)] // the signature of a reducer
    pub fn merge(&mut self, more: Self) {
        self.0 = self.0.with(more.0);
    }

    /// Returns the record of a state, or `None` if the state does not have one.
    pub(crate) fn of_state<S: Values>(state: &S) -> Option<Self> {
        let value = state.get_any(channel(state)?)?;
        value.downcast_ref().copied()
    }

    /// Returns the write that adds these labels, or `None` if the state has no record or has them already.
    pub(crate) fn added_to<S: Values>(self, state: &S) -> Option<S::Write> {
        let known = Self::of_state(state)?;
        if known.0.contains(self.0) {
            return None;
        }
        let value = codec::encode(&self).ok()?;
        state.write_from(channel(state)?, false, &value).ok()
    }
}

fn channel<S: Values>(state: &S) -> Option<usize> {
    let mut channels = (0..).map_while(|index| Some((index, state.channel(index)?)));
    channels.find(|(_, spec)| spec.name == CHANNEL).map(|(index, _)| index)
}

impl fmt::Display for ConversationLabels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Serialize for ConversationLabels {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.0.names())
    }
}

impl<'de> Deserialize<'de> for ConversationLabels {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut labels = TrustLabels::NONE;
        for name in Vec::<String>::deserialize(deserializer)? {
            let known = TrustLabels::named(&name);
            let label = known.ok_or_else(|| D::Error::custom(format!("unknown label `{name}` of a conversation")))?;
            labels = labels.with(label);
        }
        Ok(Self::new(labels))
    }
}
