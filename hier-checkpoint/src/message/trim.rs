//! Shorter copies of a conversation that a provider still accepts.

use std::collections::HashSet;

use super::{Body, Message, Messages};

impl Messages {
    /// Returns the system messages at the start of the conversation, followed by the last `count` other messages.
    ///
    /// A tool call and its results stay together. If only some of them are among the last `count` messages, the method
    /// leaves all of them out. If a result has no call, the method leaves out the result and all messages before it,
    /// except the system messages at the start.
    ///
    /// ```
    /// # use hier_checkpoint::message::{Message, Messages};
    /// let talk: Messages =
    ///     [Message::system("Be kind."), Message::user("one"), Message::assistant("two"), Message::user("three")].into();
    /// let texts: Vec<_> = talk.last_messages(1).iter().map(|m| m.content().unwrap().text()).collect();
    /// assert_eq!(texts, ["Be kind.", "three"]);
    /// ```
    #[must_use]
    pub fn last_messages(&self, count: usize) -> Self {
        self.kept(count, |_| 1)
    }

    /// Returns the system messages at the start of the conversation, followed by as many of the last messages as fit
    /// into `limit`. The limit includes the system messages. Calls and results stay together as in
    /// [`last_messages`](Self::last_messages).
    ///
    /// The function `size` estimates the size of a message in the unit of `limit`, for example in tokens. A common
    /// estimate for tokens is a quarter of the number of characters.
    #[must_use]
    pub fn last_within(&self, limit: usize, size: impl Fn(&Message) -> usize) -> Self {
        let system: usize = self.iter().take(self.preamble()).map(&size).fold(0, usize::saturating_add);
        self.kept(limit.saturating_sub(system), size)
    }

    /// The number of system messages at the beginning.
    fn preamble(&self) -> usize {
        self.iter().take_while(|message| matches!(message.body, Body::System { .. })).count()
    }

    fn kept(&self, limit: usize, size: impl Fn(&Message) -> usize) -> Self {
        let preamble = self.preamble();
        let (mut from, mut total) = (self.len(), 0_usize);
        // The ids of results whose calls have not been reached yet. A cut must not separate a result from its call.
        let mut open: HashSet<&str> = HashSet::new();
        for (place, message) in self.iter().enumerate().skip(preamble).rev() {
            total = total.saturating_add(size(message));
            if total > limit {
                break;
            }
            open.extend(message.tool_call_id());
            for call in message.tool_calls() {
                open.remove(call.id.as_str());
            }
            if open.is_empty() {
                from = place;
            }
        }
        if from == preamble {
            return self.clone();
        }
        let list = self.shared();
        Self::of(list.iter().take(preamble).chain(list.iter().skip(from)).cloned())
    }
}
