//! A conversation: a list of messages that shares what did not change.

use std::fmt;
use std::sync::Arc;

use imbl::{HashMap, Vector};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use uuid::Uuid;

use super::message::{Body, Message};
use crate::reducer::ReduceError;
use crate::state::Write;

/// A conversation. Copies share the messages: a copy costs the same for ten messages as for ten thousand.
///
/// With `#[reducer(messages)]`, written messages are merged by id: a known id replaces the message in place, a new one
/// (or none: then it gets a fresh UUID) goes to the end; [`Message::remove`] removes one, [`Message::remove_all`] all
/// (the rules of the reference's `add_messages`).
#[derive(Clone, Default)]
pub struct Messages {
    list: Vector<Arc<Message>>,
    /// The place of each id. Where an id stands twice (only after `remove_all`, which merges nothing), its last.
    places: HashMap<String, usize>,
}

impl Messages {
    /// An empty conversation.
    pub fn new() -> Self {
        Self::default()
    }

    /// The number of messages.
    pub fn len(&self) -> usize {
        self.list.len()
    }

    /// Whether there are no messages.
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// The messages, in order.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &Message> + ExactSizeIterator {
        self.list.iter().map(|message| &**message)
    }

    /// The message at this place.
    pub fn get(&self, place: usize) -> Option<&Message> {
        self.list.get(place).map(|message| &**message)
    }

    /// The last message.
    pub fn last(&self) -> Option<&Message> {
        self.list.last().map(|message| &**message)
    }

    /// Merges what was written into the conversation: the reducer `messages`.
    pub(crate) fn merge(&mut self, new: Self) -> Result<(), ReduceError> {
        let all = |message: &Arc<Message>| message.id.is_none() && message.body == Body::Remove;
        if let Some(place) = new.list.iter().rposition(all) {
            let kept = new.list.into_iter().skip(place + 1);
            *self = Self::default();
            kept.for_each(|message| self.push(message));
            return Ok(());
        }
        let mut removed: Vec<String> = Vec::new();
        for message in new.list {
            let known = message.id.as_ref().and_then(|id| Some((id, *self.places.get(id)?)));
            match (known, &message.body) {
                (Some((id, _)), Body::Remove) => removed.push(id.clone()),
                (None, Body::Remove) => {
                    let id = message.id.as_deref().unwrap_or_default();
                    return Err(ReduceError::new(format!(
                        "a message with the id `{id}` cannot be removed: there is none"
                    )));
                }
                (Some((id, place)), _) => {
                    removed.retain(|other| other != id);
                    self.list.set(place, message);
                }
                (None, _) => self.push(message),
            }
        }
        if !removed.is_empty() {
            let list = std::mem::take(self).list;
            let kept = |message: &Arc<Message>| message.id.as_ref().is_none_or(|id| !removed.contains(id));
            list.into_iter().filter(kept).for_each(|message| self.push(message));
        }
        Ok(())
    }

    /// Adds a message at the end; one without an id gets a fresh one.
    fn push(&mut self, mut message: Arc<Message>) {
        let id = Arc::make_mut(&mut message).id.get_or_insert_with(|| Uuid::new_v4().to_string()).clone();
        self.places.insert(id, self.list.len());
        self.list.push_back(message);
    }
}

impl FromIterator<Message> for Messages {
    /// What is to be merged: ids are given, and removals take effect, when it is.
    fn from_iter<I: IntoIterator<Item = Message>>(messages: I) -> Self {
        Self { list: messages.into_iter().map(Arc::new).collect(), places: HashMap::new() }.indexed()
    }
}

impl Messages {
    fn indexed(mut self) -> Self {
        let ids = self.list.iter().enumerate().filter_map(|(place, message)| Some((message.id.clone()?, place)));
        self.places = ids.collect();
        self
    }
}

impl From<Vec<Message>> for Messages {
    fn from(messages: Vec<Message>) -> Self {
        messages.into_iter().collect()
    }
}

impl<const N: usize> From<[Message; N]> for Messages {
    fn from(messages: [Message; N]) -> Self {
        messages.into_iter().collect()
    }
}

impl<const N: usize> From<[Message; N]> for Write<Messages> {
    fn from(messages: [Message; N]) -> Self {
        Self::Merge(messages.into())
    }
}

impl From<Vec<Message>> for Write<Messages> {
    fn from(messages: Vec<Message>) -> Self {
        Self::Merge(messages.into())
    }
}

impl From<Message> for Write<Messages> {
    fn from(message: Message) -> Self {
        Self::Merge([message].into())
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

impl<'de> Deserialize<'de> for Messages {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Vec::<Message>::deserialize(deserializer).map(Self::from)
    }
}
