//! The stored form of a compaction.

use serde::{Deserialize, Serialize};

use crate::prompts::DRAFT;
use hier_checkpoint::message::{Body, Message, Messages, Usage};

/// A description of the shortened conversation that an agent sends instead of the whole one. The channel `compaction`
/// holds this description, and [`compacted`](super::compacted) applies it to the conversation.
///
/// To make the agent send the whole conversation again, write `None` to the channel. Also write `None` if your code
/// changes the text of old messages, because the summary may contain the old text. If your code removes messages that
/// the summary covers, the agent ignores the `Compaction` and sends the whole conversation.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct Compaction {
    /// The position up to which the summary replaces messages. `None` without a summary.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cut: Option<MessageMark>,
    /// The summary. Empty if the messages have not been summarized.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub summary: String,
    /// The name of the model that wrote the summary. Empty without a summary.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub by: String,
    /// The ids of user messages that are always sent. If such a message is before the position [`cut`](Self::cut), the
    /// agent adds its content to the message that contains the summary. Only [`clipped`](Self::clipped) shortens this
    /// content.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub pinned: Vec<String>,
    /// The position up to which a placeholder replaces tool results. `None` if no results are replaced.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cleared: Option<MessageMark>,
    /// The position up to which long texts and arguments are shortened to their beginning and end. `None` if nothing is
    /// shortened.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub offloaded: Option<MessageMark>,
    /// The maximum length of messages. `None` means no limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub clipped: Option<Clipping>,
    /// The tokens that all requests for summaries of this conversation have used so far.
    pub usage: Usage,
    /// The size of the conversation, in tokens, when the agent made this compaction. An estimate if the provider did
    /// not report the size.
    pub tokens: u64,
}

/// A position in a conversation, directly after a message. The position stays valid when system messages are added or
/// removed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct MessageMark {
    /// The id of the message before this position.
    pub message: String,
    /// The number of messages up to this position. System messages and rejected replies do not count.
    pub count: usize,
}

/// A maximum length that applies to each message before a position.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Clipping {
    /// The position up to which the maximum length applies.
    pub upto: MessageMark,
    /// The maximum length of a message, in characters.
    pub characters: usize,
}

/// Returns true if a message counts towards a position. Instructions change, and drafts disappear at the end of their
/// turn.
fn counts(message: &Message) -> bool {
    !is_system(message) && !message.id.as_deref().is_some_and(|id| id.starts_with(DRAFT))
}

pub(super) fn is_system(message: &Message) -> bool {
    matches!(message.body, Body::System { .. })
}

impl MessageMark {
    /// Returns the position after the first `place` messages of the conversation. System messages and rejected replies
    /// among them do not count. Returns `None` if no message counts, or if the last message that counts has no id.
    pub fn behind(messages: &Messages, place: usize) -> Option<Self> {
        let counted = messages.iter().take(place).filter(|message| counts(message));
        let (mut last, mut count) = (None, 0);
        for message in counted {
            last = message.id.as_deref();
            count += 1;
        }
        Some(Self { message: last?.to_owned(), count })
    }

    /// Returns the number of messages before this position. Returns `None` if the conversation has another message
    /// there.
    pub(super) fn place(&self, messages: &Messages) -> Option<usize> {
        let mut counted = messages.iter().enumerate().filter(|(_, message)| counts(message));
        let (place, last) = counted.nth(self.count.checked_sub(1)?)?;
        (last.id.as_deref() == Some(&*self.message)).then_some(place + 1)
    }
}

impl Clipping {
    /// Creates a `Clipping` that limits each message before the position `upto` to a number of `characters`.
    pub fn new(upto: MessageMark, characters: usize) -> Self {
        Self { upto, characters }
    }
}

impl Compaction {
    /// Returns true if the same messages are sent with both records.
    pub(crate) fn sends_as(&self, other: Option<&Self>) -> bool {
        other.is_some_and(|other| {
            *self == Self { usage: self.usage, tokens: self.tokens, pinned: self.pinned.clone(), ..other.clone() }
        })
    }

    /// Returns true if `messages` still contains the messages that the summary covers. Without a summary, always
    /// returns true.
    pub fn fits(&self, messages: &Messages) -> bool {
        self.cut.as_ref().is_none_or(|cut| cut.place(messages).is_some())
    }

    pub(super) fn cut_at(&self, messages: &Messages) -> usize {
        self.cut.as_ref().and_then(|cut| cut.place(messages)).unwrap_or(0)
    }
}
