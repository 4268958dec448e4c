use std::fmt::{self, Debug};

use serde_json::{Map, Value};
use smallvec::SmallVec;

use super::{ChannelWrite, Values};

/// An ordered list of writes to channels.
#[derive(Clone)]
pub struct Writes<S: Values>(SmallVec<[S::Write; 2]>);

impl<S: Values> Writes<S> {
    /// Creates an empty list.
    pub fn new() -> Self {
        Self(SmallVec::new())
    }

    /// Adds a write to a channel. If the channel has no reducer, the write replaces earlier writes to this channel.
    #[inline]
    pub fn set(&mut self, write: S::Write) {
        let channel = write.channel();
        match self.0.iter_mut().find(|old| old.channel() == channel && !write.is_merged()) {
            Some(old) => *old = write,
            None => self.0.push(write),
        }
    }

    /// Appends a write, even if the list already writes the channel.
    pub fn push(&mut self, write: S::Write) {
        self.0.push(write);
    }

    /// Returns the writes in order.
    pub fn iter(&self) -> std::slice::Iter<'_, S::Write> {
        self.0.iter()
    }

    /// Returns the number of writes.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns true if the list is empty.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Removes all writes, and passes them to `take` in order. After an error of `take`, drops the remaining writes and
    /// returns the error.
    #[inline]
    #[doc(hidden)]
    pub fn take_each<E>(&mut self, mut take: impl FnMut(S::Write) -> Result<(), E>) -> Result<(), E> {
        match self.0.len() {
            // The most frequent case, and much cheaper than an iterator.
            1 => self.0.pop().map_or(Ok(()), take),
            _ => self.0.drain(..).try_for_each(&mut take),
        }
    }

    /// Removes all writes, and returns them in order.
    #[doc(hidden)]
    pub fn drain(&mut self) -> smallvec::Drain<'_, [S::Write; 2]> {
        self.0.drain(..)
    }

    #[doc(hidden)]
    pub fn retain(&mut self, mut keep: impl FnMut(&S::Write) -> bool) {
        self.0.retain(|write| keep(write));
    }

    /// Returns the writes as JSON: an object with the names of channels as keys, or a list of such objects if a channel
    /// is written more than once. Leaves out writes to secret and untracked channels. Returns null if no writes remain.
    pub fn to_json(&self) -> Result<Value, serde_json::Error> {
        let shown = || self.iter().filter(|write| !write.is_secret() && write.stored().is_some());
        if shown().next().is_none() {
            return Ok(Value::Null);
        }
        let mut object = Map::new();
        for write in shown() {
            object.insert(write.name().to_owned(), write.to_json()?);
        }
        if object.len() == shown().count() {
            return Ok(Value::Object(object));
        }
        let single =
            |write: &S::Write| Ok(Value::Object(Map::from_iter([(write.name().to_owned(), write.to_json()?)])));
        shown().map(single).collect::<Result<Vec<_>, _>>().map(Value::Array)
    }
}

impl<S: Values> Default for Writes<S> {
    fn default() -> Self {
        Self::new()
    }
}

impl<S: Values> Debug for Writes<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

impl<S: Values> FromIterator<S::Write> for Writes<S> {
    fn from_iter<I: IntoIterator<Item = S::Write>>(writes: I) -> Self {
        Self(writes.into_iter().collect())
    }
}

impl<S: Values> IntoIterator for Writes<S> {
    type Item = S::Write;
    type IntoIter = IntoWrites<S>;

    fn into_iter(self) -> Self::IntoIter {
        IntoWrites(self.0.into_iter())
    }
}

/// An iterator over the writes of an update.
pub struct IntoWrites<S: Values>(smallvec::IntoIter<[S::Write; 2]>);

impl<S: Values> Debug for IntoWrites<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.0.as_slice()).finish()
    }
}

impl<S: Values> Iterator for IntoWrites<S> {
    type Item = S::Write;

    fn next(&mut self) -> Option<Self::Item> {
        self.0.next()
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.0.size_hint()
    }
}

impl<S: Values> ExactSizeIterator for IntoWrites<S> {}

impl<'a, S: Values> IntoIterator for &'a Writes<S> {
    type Item = &'a S::Write;
    type IntoIter = std::slice::Iter<'a, S::Write>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

/// An update of a state: a list of writes to channels. `#[derive(State)]` generates the type of the update, with a
/// setter for each channel.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not an update of a state",
    note = "make one with `YourState::update()` and the methods named like the channels"
)]
pub trait Update: Default + Clone + Send + Sync + Debug + 'static {
    /// The state to which the update belongs.
    type State: Values<Update = Self>;

    /// Returns the writes of the update.
    fn writes(&self) -> &Writes<Self::State>;
    /// Returns a mutable reference to the writes of the update.
    fn writes_mut(&mut self) -> &mut Writes<Self::State>;
    /// Converts the update into its writes.
    fn into_writes(self) -> Writes<Self::State>;
    /// Creates an update from writes.
    fn from_writes(writes: Writes<Self::State>) -> Self;
}
