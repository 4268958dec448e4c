//! Conversations of hostile size: clients send messages with many calls, results in any order, and many removals.
//!
//! A loop in a loop over one of these conversations would not end within minutes.

use hier_checkpoint::message::{Message, Messages, ToolCall};
use hier_checkpoint::reducer::MergeMessages as _;
use serde_json::Value;

/// The number of calls or messages of a hostile conversation.
const MANY: usize = 100_000;

fn call(id: usize) -> ToolCall {
    ToolCall::new("look", Value::Null).with_id(id.to_string())
}

fn conversation() -> Messages {
    (0..MANY).map(|number| Message::calls("", [call(number)])).collect()
}

fn ids(messages: &Messages) -> impl Iterator<Item = &str> {
    messages.iter().filter_map(|message| message.id.as_deref())
}

#[test]
fn conversation_merges_many_removals_and_replacements() {
    let mut messages = conversation();
    let first = messages.get(0).cloned();
    let write: Messages = ids(&messages).skip(1).map(Message::remove).collect();
    messages.merge_messages(write).expect("all messages are known");
    assert_eq!((messages.len(), messages.get(0)), (1, first.as_ref()));

    let mut messages = conversation();
    let write: Messages = ids(&messages).map(|id| Message::assistant(id).with_id(id)).collect();
    messages.merge_messages(write).expect("all messages are known");
    assert_eq!(messages.len(), MANY);
    assert!(messages.iter().all(|message| Some(message.text()) == message.id));
}

#[test]
fn results_of_many_calls_are_matched_in_any_order() {
    let calls: Vec<ToolCall> = (0..MANY).map(call).collect();
    let results = calls.iter().rev().map(|call| Message::tool(call, ""));
    let all: Messages = [Message::calls("", calls.clone())].into_iter().chain(results).collect();
    assert!(all.open_calls().is_empty());
    assert_eq!(all.paired_prefix(), all.len());
}

/// The open calls of the first message, by comparing each result with each call.
fn open_simply(calls: &[ToolCall], later: &[Message]) -> Vec<ToolCall> {
    let mut open = calls.to_vec();
    for id in later.iter().filter_map(Message::tool_call_id) {
        if let Some(place) = open.iter().position(|call| call.id == id) {
            open.remove(place);
        }
    }
    open
}

#[test]
fn calls_and_results_are_matched_like_in_a_simple_loop() {
    let mut random = fastrand::Rng::with_seed(7);
    for _ in 0..2_000 {
        let calls: Vec<ToolCall> = (0..random.usize(1..8)).map(|_| call(random.usize(..5))).collect();
        let mut later: Vec<Message> = calls.iter().map(|call| Message::tool(call, "")).collect();
        random.shuffle(&mut later);
        for _ in 0..random.usize(..3) {
            let place = random.usize(..=later.len());
            match random.u8(..3) {
                0 => later.insert(place, Message::user("more")),
                1 => later.insert(place, Message::tool(&call(random.usize(..5)), "")),
                _ => later.truncate(place),
            }
        }
        let all: Messages = [Message::calls("", calls.clone())].into_iter().chain(later.clone()).collect();
        let open: Vec<ToolCall> = all.open_calls().into_iter().cloned().collect();
        assert_eq!(open, open_simply(&calls, &later), "{calls:?} {later:?}");
        let group = later.get(..calls.len()).is_some_and(|group| {
            group.iter().all(|message| message.tool_call_id().is_some()) && open_simply(&calls, group).is_empty()
        });
        assert_eq!(all.paired_prefix() > 0, group, "{calls:?} {later:?}");
    }
}
