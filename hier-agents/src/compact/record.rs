//! What is kept of a compaction: what is sent instead of the whole conversation.

use serde::{Deserialize, Serialize};

use crate::words::DRAFT;
use hier_checkpoint::message::{Body, Message, Messages, Usage};

/// What is sent of a conversation instead of all of it. It stands in the channel `compaction` of every agent's state, and is
/// written with the answer of the model that it was made for. [`compacted`](super::compacted) is the conversation as it is sent.
///
/// Writing `None` sends everything again. A record that does not fit the conversation, because messages that it stands
/// for were removed, is not used: nothing of a message that is gone reaches a model in a summary. A message that was *changed* in place may
/// still be in it: whoever changes old messages writes `None` too.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct Compaction {
    /// Up to here the summary stands for the messages; none if nothing is summed up.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cut: Option<Mark>,
    /// The summary.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub summary: String,
    /// The model that wrote the summary.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub by: String,
    /// The ids of messages of users before the cut that are sent word for word, behind the summary.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub pinned: Vec<String>,
    /// Up to here the results of tools are cleared.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cleared: Option<Mark>,
    /// Up to here long texts and arguments are left out but for their beginnings.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub offloaded: Option<Mark>,
    /// How long a message may be that is sent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub clipped: Option<Clipping>,
    /// What the summaries have cost so far.
    pub usage: Usage,
    /// How many tokens the conversation had when this was made, as far as that is known.
    pub tokens: u64,
}

/// A place in a conversation: behind a message. It outlives messages of the system that come and go, as those of members that
/// report do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Mark {
    /// The id of the message.
    pub message: String,
    /// How many messages there are up to it, itself included; those of the system do not count.
    pub count: usize,
}

/// How long a message may be that is sent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Clipping {
    /// Of the messages up to here.
    pub upto: Mark,
    /// In characters.
    pub characters: usize,
}

/// Returns true if a message counts towards a position. Instructions change, and drafts disappear at the end of their turn.
fn counts(message: &Message) -> bool {
    !is_system(message) && !message.id.as_deref().is_some_and(|id| id.starts_with(DRAFT))
}

/// Whether a message instructs.
pub(super) fn is_system(message: &Message) -> bool {
    matches!(message.body, Body::System { .. })
}

impl Mark {
    /// The place behind the first `place` messages; none if there is none but instructions before it.
    pub fn behind(messages: &Messages, place: usize) -> Option<Self> {
        let counted = messages.iter().take(place).filter(|message| counts(message));
        let (mut last, mut count) = (None, 0);
        for message in counted {
            last = message.id.as_deref();
            count += 1;
        }
        Some(Self { message: last?.to_owned(), count })
    }

    /// How many messages stand before it; none if the conversation is not the one that it was made for.
    pub(super) fn place(&self, messages: &Messages) -> Option<usize> {
        let mut counted = messages.iter().enumerate().filter(|(_, message)| counts(message));
        let (place, last) = counted.nth(self.count.checked_sub(1)?)?;
        (last.id.as_deref() == Some(&*self.message)).then_some(place + 1)
    }
}

impl Clipping {
    /// Messages up to here have at most so many characters.
    pub fn new(upto: Mark, characters: usize) -> Self {
        Self { upto, characters }
    }
}

impl Compaction {
    /// Whether the same is sent as with this.
    pub(crate) fn sends_as(&self, other: Option<&Self>) -> bool {
        other.is_some_and(|other| {
            *self == Self { usage: self.usage, tokens: self.tokens, pinned: self.pinned.clone(), ..other.clone() }
        })
    }

    /// Whether its summary stands for messages of this conversation, or there is none.
    pub fn fits(&self, messages: &Messages) -> bool {
        self.cut.as_ref().is_none_or(|cut| cut.place(messages).is_some())
    }

    /// How many messages the summary stands for.
    pub(super) fn cut_at(&self, messages: &Messages) -> usize {
        self.cut.as_ref().and_then(|cut| cut.place(messages)).unwrap_or(0)
    }
}
