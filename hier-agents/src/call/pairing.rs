//! Arranges a conversation as every provider accepts it: each call followed by its result.

use std::collections::HashMap;
use std::sync::Arc;

use crate::prompts;
use hier_checkpoint::message::{Body, IdQueues, Message, Messages};

/// Returns the conversation in the order that providers require, in which each tool call is followed by its result.
/// Agents and nodes send every request in this order. The messages in the state keep their order.
///
/// * The results follow the message that makes the calls, in the order of the calls. Messages between a call and its
///   result move behind the results.
/// * A call without a result gets a placeholder result.
/// * A result without a call becomes a user message.
///
/// Some providers use the same call id again in a later reply. If several earlier calls have the id of a result, the
/// result belongs to the latest of these calls that has no result yet.
///
/// ```
/// use hier_agents::{Message, Messages, ToolCall, paired};
/// use serde_json::json;
///
/// let call = ToolCall::new("lookup", json!({}));
/// let talk: Messages = [Message::calls("", [call.clone()]), Message::user("Hurry!"), Message::tool(&call, "found")].into();
/// let sent: Vec<String> = paired(&talk).iter().map(Message::text).collect();
/// assert_eq!(sent, ["", "found", "Hurry!"]);
/// ```
pub fn paired(messages: &Messages) -> Messages {
    if is_paired(messages) {
        return messages.clone();
    }
    let results = results(messages);
    let taken: Vec<bool> = {
        let mut taken = vec![false; messages.len()];
        results.values().flatten().flatten().for_each(|place| taken[*place] = true);
        taken
    };
    let list = messages.shared();
    let mut sent: Vec<Arc<Message>> = Vec::with_capacity(list.len());
    for (place, message) in list.iter().enumerate() {
        if taken[place] {
            continue;
        }
        if matches!(message.body, Body::Tool { .. }) {
            sent.push(Arc::new(prompts::result_alone(message)));
            continue;
        }
        sent.push(message.clone());
        let answers = results.get(&place).into_iter().flatten();
        for (call, answer) in message.tool_calls().iter().zip(answers) {
            let answer = answer.map(|place| list[place].clone());
            sent.push(answer.unwrap_or_else(|| {
                let id = format!("open:{}:{}", message.id.as_deref().unwrap_or_default(), call.id);
                Arc::new(prompts::answer(call, prompts::NO_RESULT).with_id(id))
            }));
        }
    }
    Messages::of(sent.into_iter())
}

/// Returns true if the results directly follow the messages that make their calls, and occur nowhere else.
fn is_paired(messages: &Messages) -> bool {
    messages.paired_prefix() == messages.len()
}

/// Maps each message that makes calls to the positions of their results, in the order of the calls.
fn results(messages: &Messages) -> HashMap<usize, Vec<Option<usize>>> {
    let mut callers: HashMap<usize, (IdQueues<'_>, Vec<Option<usize>>)> = HashMap::new();
    // For each call id, the messages that have an open call with this id. The last message is at the end.
    let mut open: HashMap<&str, Vec<usize>> = HashMap::new();
    for (place, message) in messages.iter().enumerate() {
        let calls = message.tool_calls();
        if !calls.is_empty() {
            callers.insert(place, (IdQueues::of(calls.iter().map(|call| &*call.id)), vec![None; calls.len()]));
            for call in calls {
                open.entry(&call.id).or_default().push(place);
            }
        }
        let Some(id) = message.tool_call_id() else { continue };
        let Some(caller) = open.get_mut(id).and_then(Vec::pop) else { continue };
        let Some((ids, answers)) = callers.get_mut(&caller) else { continue };
        if let Some(call) = ids.take(id, 0) {
            answers[call] = Some(place);
        }
    }
    callers.into_iter().map(|(place, (_, answers))| (place, answers)).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use hier_checkpoint::message::ToolCall;

    fn call(id: &str) -> ToolCall {
        ToolCall::new("look", json!({})).with_id(id)
    }

    fn texts(messages: &Messages) -> Vec<String> {
        messages.iter().map(Message::text).collect()
    }

    #[test]
    fn results_follow_their_calls_from_any_position() {
        let (ask, one, two) = (
            Message::calls("ask", [call("1"), call("2")]),
            Message::tool(&call("1"), "one"),
            Message::tool(&call("2"), "two"),
        );
        let whole = || vec![Message::user("hi"), ask.clone(), one.clone(), two.clone(), Message::assistant("bye")];
        assert_eq!(texts(&paired(&whole().into())), ["hi", "ask", "one", "two", "bye"]);
        for place in 0..=5 {
            let mut all = whole();
            all.insert(place, Message::user("foreign"));
            let sent = paired(&all.into());
            assert!(is_paired(&sent), "{place}: {sent:?}");
            let others: Vec<String> = texts(&sent).into_iter().filter(|text| text != "foreign").collect();
            assert_eq!(others, ["hi", "ask", "one", "two", "bye"], "{place}");
        }
        let mut all = whole();
        all.swap(2, 3);
        all.insert(3, Message::system("rules"));
        assert_eq!(texts(&paired(&all.into())), ["hi", "ask", "one", "two", "rules", "bye"]);
    }

    #[test]
    fn open_calls_and_lone_results_are_made_valid() {
        let all: Messages = [Message::calls("ask", [call("1")]), Message::user("go on")].into();
        let sent = paired(&all);
        assert_eq!(texts(&sent), ["ask", prompts::NO_RESULT, "go on"]);
        // Equal conversations are sent as equal messages.
        assert_eq!(sent, paired(&all));
        let all: Messages = [Message::user("hi"), Message::tool(&call("9"), "lost")].into();
        let sent = paired(&all);
        assert!(is_paired(&sent));
        assert_eq!(texts(&sent), ["hi", "[The result of `look`, which was called earlier:]\nlost"]);
    }

    #[test]
    fn replaced_messages_are_arranged_anew() {
        let (ask, found) =
            (Message::calls("ask", [call("1")]).with_id("a"), Message::tool(&call("1"), "one").with_id("r"));
        let end = Message::assistant("bye");
        let mut all: Messages = vec![Message::user("hi"), ask, found, end].into();
        let mut replace = |message: Message| {
            all.merge(message.into()).expect("a known id");
            texts(&paired(&all))
        };
        assert_eq!(replace(Message::tool(&call("1"), "two").with_id("r")), ["hi", "ask", "two", "bye"]);
        let lost = "[The result of `look`, which was called earlier:]\ntwo";
        assert_eq!(
            replace(Message::calls("new", [call("2")]).with_id("a")),
            ["hi", "new", prompts::NO_RESULT, lost, "bye"]
        );
        assert_eq!(replace(Message::tool(&call("2"), "three").with_id("r")), ["hi", "new", "three", "bye"]);
        assert_eq!(replace(Message::assistant("done").with_id("a"))[2], lost.replace("two", "three"));
        assert_eq!(replace(Message::user("so?").with_id("r")), ["hi", "done", "so?", "bye"]);
    }

    #[test]
    fn result_belongs_to_last_open_call_with_its_id() {
        let first = Message::calls("first", [call("0")]);
        let second = Message::calls("second", [call("0"), call("0")]);
        let result = |text: &str| Message::tool(&call("0"), text);
        let all: Messages = [first, Message::user("go on"), second, result("a"), result("b")].into();
        assert_eq!(texts(&paired(&all)), ["first", prompts::NO_RESULT, "go on", "second", "a", "b"]);
    }
}
