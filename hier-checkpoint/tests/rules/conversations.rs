//! The time of a write to a conversation grows with the number of its messages.

use std::time::{Duration, Instant};

use hier_checkpoint::message::{Message, Messages, ToolCall};
use hier_checkpoint::reducer::MergeMessages as _;
use serde_json::Value;

fn call(number: usize) -> Message {
    Message::calls("", [ToolCall::new("look", Value::Null).with_id(number.to_string())])
}

fn conversation(length: usize) -> Messages {
    (0..length).map(call).collect()
}

/// Returns the shortest time of three merges of the write `of` a conversation of this length.
fn shortest(length: usize, of: fn(&Messages) -> Messages) -> Duration {
    let times = (0..3).map(|_| {
        let mut messages = conversation(length);
        let write = of(&messages);
        let began = Instant::now();
        messages.merge_messages(write).expect("all messages are known");
        began.elapsed()
    });
    times.min().unwrap_or_default()
}

fn ids(messages: &Messages) -> impl Iterator<Item = &str> {
    messages.iter().filter_map(|message| message.id.as_deref())
}

#[test]
fn merge_of_many_removals_or_replacements_takes_linear_time() {
    let removals: fn(&Messages) -> Messages = |messages| ids(messages).skip(1).map(Message::remove).collect();
    let replacements: fn(&Messages) -> Messages =
        |messages| ids(messages).zip(1_000_000..).map(|(id, number)| call(number).with_id(id)).collect();
    for write in [removals, replacements] {
        let (few, many) = (shortest(500, write), shortest(16_000, write));
        // Linear time is 32 times as long, quadratic time 1,024 times.
        assert!(many < few * 256, "500 messages: {few:?}, 16,000 messages: {many:?}");
    }
}
