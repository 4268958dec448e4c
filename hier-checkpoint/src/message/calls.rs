//! The calls in a conversation, and which of them wait for a result.
//!
//! An inbox, a layer or a person can add messages between a reply of the model and the results of its calls. A call is
//! therefore found by its id, or by the message that makes it, and never by its distance from the end.

use super::id_queues::IdQueues;
use super::{Body, Message, Messages, ToolCall};

impl Messages {
    /// Returns the open calls of the last message with tool calls. A call is open if no later message is its result.
    #[doc(hidden)]
    pub fn open_calls(&self) -> Vec<&ToolCall> {
        let place = self.iter().rposition(|message| !message.tool_calls().is_empty());
        place.map(|place| self.open_at(place)).unwrap_or_default()
    }

    /// Returns the open calls of the model's last message. A call is open if no later message is its result.
    #[doc(hidden)]
    pub fn open_in_last_answer(&self) -> Vec<&ToolCall> {
        let place = self.iter().rposition(|message| matches!(message.body, Body::Assistant { .. }));
        place.map(|place| self.open_at(place)).unwrap_or_default()
    }

    /// Returns the last message that makes a call with this id, or `None` if no message does. Earlier messages can
    /// contain the same id, because some providers use an id again.
    #[doc(hidden)]
    pub fn caller_of(&self, id: &str) -> Option<&Message> {
        self.iter().rev().find(|message| message.tool_calls().iter().any(|call| call.id == id))
    }

    /// Returns the calls of the message at this place that have no result after the message.
    fn open_at(&self, place: usize) -> Vec<&ToolCall> {
        let calls = self.get(place).map(Message::tool_calls).unwrap_or_default();
        let mut ids = IdQueues::of(calls.iter().map(|call| &*call.id));
        let mut open: Vec<Option<&ToolCall>> = calls.iter().map(Some).collect();
        // Reads backwards, because the place is near the end.
        for id in self.iter().rev().take(self.len() - place - 1).filter_map(Message::tool_call_id) {
            if let Some(answered) = ids.take(id, 0) {
                open[answered] = None;
            }
        }
        open.into_iter().flatten().collect()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn call(id: &str) -> ToolCall {
        ToolCall::new("look", json!({})).with_id(id)
    }

    fn open(messages: &Messages) -> Vec<&str> {
        messages.open_calls().iter().map(|call| &*call.id).collect()
    }

    #[test]
    fn open_calls_ignore_messages_of_others() {
        let answer = Message::calls("", [call("1"), call("2")]);
        let foreign = || [Message::user("more"), Message::system("rules"), Message::assistant("by a person")];
        for place in 0..=2 {
            let mut all = vec![Message::user("hi"), answer.clone(), Message::tool(&call("1"), "seen")];
            let at = place + 1;
            for message in foreign() {
                all.insert(at, message);
            }
            assert_eq!(open(&all.into()), ["2"], "{place}");
        }
        let all: Messages = [answer, Message::tool(&call("2"), ""), Message::tool(&call("1"), "")].into();
        assert!(open(&all).is_empty());
        assert!(all.open_in_last_answer().is_empty());
    }

    #[test]
    fn reused_id_names_the_later_call() {
        let (first, second) = (Message::calls("first", [call("0")]), Message::calls("second", [call("0")]));
        let all: Messages = [first, Message::tool(&call("0"), "one"), second, Message::user("more")].into();
        assert_eq!(open(&all), ["0"]);
        assert_eq!(all.caller_of("0").unwrap().text(), "second");
        assert_eq!(all.caller_of("1"), None);
    }

    #[test]
    fn only_the_last_answer_determines_open_calls() {
        let all: Messages =
            [Message::calls("", [call("0")]), Message::user("stop"), Message::assistant("Fine.")].into();
        assert_eq!(open(&all), ["0"]);
        assert!(all.open_in_last_answer().is_empty());
    }
}
