//! A conversation: a list of messages whose clones share the messages.

use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;

use imbl::Vector;
use serde::{Serialize, Serializer};

use super::id_queues::IdQueues;
use super::index::Places;
use super::{Body, Message, fresh_id};
use crate::reducer::{MergeMessages, ReduceError, Write};

/// A conversation: a list of messages. Clones share the messages and take constant time.
///
/// A message without an id gets a random UUID when it is added to a list, except [`Message::remove_all`].
///
/// A channel with `#[reducer(messages)]` merges written messages by id. A written message replaces the message with the
/// same id, at the same position. The channel appends a message with a new id. A write can also remove messages, with
/// [`Message::remove`] and [`Message::remove_all`]. LangGraph's `add_messages` has the same rules.
#[derive(Clone, Default)]
pub struct Messages {
    list: Vector<Arc<Message>>,
    places: Places,
    paired: usize,
}

impl Messages {
    /// Creates an empty conversation.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns the number of messages.
    pub fn len(&self) -> usize {
        self.list.len()
    }

    /// Returns true if there are no messages.
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Returns the messages, in order.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &Message> + ExactSizeIterator {
        self.list.iter().map(|message| &**message)
    }

    /// Returns the message with this index, or `None` if no message has this index.
    pub fn get(&self, place: usize) -> Option<&Message> {
        self.list.get(place).map(|message| &**message)
    }

    /// Returns the last message, or `None` if the conversation is empty.
    pub fn last(&self) -> Option<&Message> {
        self.list.last().map(|message| &**message)
    }

    #[doc(hidden)]
    #[must_use]
    pub fn preceded_by(&self, first: Option<Message>) -> Self {
        let Some(first) = first else { return self.clone() };
        Self::of([Arc::new(identified(first))].into_iter().chain(self.list.iter().cloned()))
    }

    #[doc(hidden)]
    #[must_use]
    pub fn followed_by(&self, others: Vec<Message>) -> Self {
        self.clone().extended(others.into_iter().map(|message| Arc::new(identified(message))))
    }

    #[doc(hidden)]
    pub fn merge(&mut self, new: Self) -> Result<(), ReduceError> {
        let all = |message: &Arc<Message>| message.id.is_none() && message.body == Body::Remove;
        if let Some(place) = new.list.iter().rposition(all) {
            *self = Self::default();
            return self.merge(Self::of(new.list.into_iter().skip(place + 1)));
        }
        let mut removed: HashSet<String> = HashSet::new();
        for message in new.list {
            let known = message.id.as_ref().and_then(|id| Some((id, self.place(id)?)));
            match (known, &message.body) {
                (Some((id, _)), Body::Remove) => _ = removed.insert(id.clone()),
                (None, Body::Remove) => {
                    let id = message.id.as_deref().unwrap_or_default();
                    return Err(ReduceError::new(format!("there is no message with the id `{id}` to remove")));
                }
                (Some((id, place)), _) => {
                    removed.remove(id);
                    self.replace(place, &message);
                }
                (None, _) => self.push(message),
            }
        }
        if !removed.is_empty() {
            let list = std::mem::take(self).list;
            let kept = |message: &Arc<Message>| message.id.as_ref().is_none_or(|id| !removed.contains(id));
            *self = Self::of(list.into_iter().filter(kept));
        }
        self.extend_paired();
        Ok(())
    }

    fn push(&mut self, message: Arc<Message>) {
        self.places.add(message.id.as_deref(), self.list.len(), || ids(&self.list));
        self.list.push_back(message);
    }

    fn extended(mut self, more: impl Iterator<Item = Arc<Message>>) -> Self {
        more.for_each(|message| self.push(message));
        self.extend_paired();
        self
    }

    fn replace(&mut self, place: usize, message: &Arc<Message>) {
        let old = self.list.set(place, message.clone());
        let call_ids = |message: &Message| message.tool_calls().iter().map(|call| call.id.clone()).collect::<Vec<_>>();
        if old.tool_call_id() != message.tool_call_id() || call_ids(&old) != call_ids(message) {
            self.paired = 0;
        }
    }

    /// Returns the length of the longest prefix in which the results of all calls directly follow the message with the
    /// calls, as providers require. Takes constant time, because each change of the conversation updates the length.
    #[doc(hidden)]
    pub fn paired_prefix(&self) -> usize {
        self.paired
    }

    fn extend_paired(&mut self) {
        while let Some(end) = self.end_of_group(self.paired) {
            self.paired = end;
        }
    }

    /// Returns the end of the group at `start`: a message and all results of its calls. `None` if a result is missing.
    fn end_of_group(&self, start: usize) -> Option<usize> {
        let calls = self.get(start).filter(|first| first.tool_call_id().is_none())?.tool_calls();
        let end = start + 1 + calls.len();
        self.get(end - 1)?;
        let mut open = IdQueues::of(calls.iter().map(|call| &*call.id));
        for place in start + 1..end {
            open.take(self.get(place)?.tool_call_id()?, 0)?;
        }
        Some(end)
    }

    /// Splits the conversation: returns the first `first` messages as a conversation, and the other messages as a list.
    #[doc(hidden)]
    pub fn split(&self, first: usize) -> (Self, Vec<Message>) {
        let rest = self.iter().skip(first).cloned().collect();
        (Self::of(self.list.iter().take(first).cloned()), rest)
    }

    #[doc(hidden)]
    pub fn place(&self, id: &str) -> Option<usize> {
        self.places.find(id, self.list.len(), |place| self.list.get(place)?.id.as_deref(), || ids(&self.list))
    }

    #[doc(hidden)]
    pub fn shared(&self) -> &Vector<Arc<Message>> {
        &self.list
    }

    #[doc(hidden)]
    pub fn of(messages: impl Iterator<Item = Arc<Message>>) -> Self {
        Self::default().extended(messages)
    }
}

impl MergeMessages for Messages {
    fn merge_messages(&mut self, new: Self) -> Result<(), ReduceError> {
        self.merge(new)
    }
}

impl FromIterator<Message> for Messages {
    /// Assigns ids to messages without one. Removals take effect when the list is merged into a channel.
    fn from_iter<I: IntoIterator<Item = Message>>(messages: I) -> Self {
        Self::of(messages.into_iter().map(|message| Arc::new(identified(message))))
    }
}

fn ids(list: &Vector<Arc<Message>>) -> impl ExactSizeIterator<Item = Option<&str>> + DoubleEndedIterator {
    list.iter().map(|message| message.id.as_deref())
}

/// Returns the message with an id: its own or a fresh one. A message that removes all others needs no id.
fn identified(mut message: Message) -> Message {
    if message.id.is_none() && message.body != Body::Remove {
        message.id = Some(fresh_id().to_string());
    }
    message
}

/// Writes the conversions of these types to a list of messages, and to a write that merges the list.
macro_rules! lists_of {
    ($([$($generics:tt)*] $from:ty, $messages:expr;)*) => {$(
        impl<$($generics)*> From<$from> for Messages {
            fn from(from: $from) -> Self {
                $messages(from).into_iter().collect()
            }
        }

        impl<$($generics)*> From<$from> for Write<Messages> {
            fn from(from: $from) -> Self {
                Self::Merge(from.into())
            }
        }
    )*};
}

lists_of! {
    [] Message, std::iter::once;
    [] Vec<Message>, std::convert::identity;
    [const N: usize] [Message; N], std::convert::identity;
}

impl From<&str> for Messages {
    fn from(text: &str) -> Self {
        Message::user(text).into()
    }
}

impl From<String> for Messages {
    fn from(text: String) -> Self {
        Message::user(text).into()
    }
}

impl From<&Self> for Messages {
    fn from(messages: &Self) -> Self {
        messages.clone()
    }
}

impl<'a> IntoIterator for &'a Messages {
    type Item = &'a Message;
    type IntoIter = Box<dyn Iterator<Item = &'a Message> + 'a>;

    fn into_iter(self) -> Self::IntoIter {
        Box::new(self.iter())
    }
}

impl PartialEq for Messages {
    fn eq(&self, other: &Self) -> bool {
        self.list == other.list
    }
}

impl fmt::Debug for Messages {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

impl Serialize for Messages {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.iter())
    }
}
