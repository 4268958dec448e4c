//! The reducer `messages`: the rules of the reference's `add_messages` (its case D67).

use hier_core::agent::{Body, Content};
use hier_core::prelude::*;
use serde_json::json;

#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
struct Chat {
    #[reducer(messages)]
    messages: Messages,
}

/// The conversation after these writes, as `role id text`.
fn after(writes: impl IntoIterator<Item = Vec<Message>>) -> Result<Vec<String>, String> {
    let mut chat = Chat::default();
    for messages in writes {
        for write in Chat::update().messages(messages).into_writes() {
            chat.reduce(write).map_err(|error| error.to_string())?;
        }
    }
    let told = |message: &Message| {
        let role = match message.body {
            Body::System { .. } => "system",
            Body::User { .. } => "user",
            Body::Assistant { .. } => "assistant",
            Body::Tool { .. } => "tool",
            Body::Remove => "remove",
        };
        let Some(Content::Text(text)) = message.content() else { panic!("{message:?}") };
        format!("{role} {} {text}", message.id.as_deref().expect("every merged message has an id"))
    };
    Ok(chat.messages.iter().map(told).collect())
}

fn user(id: &str, text: &str) -> Message {
    Message::user(text).with_id(id)
}

fn assistant(id: &str, text: &str) -> Message {
    Message::assistant(text).with_id(id)
}

#[test]
fn new_messages_go_to_the_end_and_known_ones_are_replaced_in_place() {
    let first = vec![user("1", "a"), assistant("2", "b")];
    assert_eq!(after([first.clone()]).unwrap(), ["user 1 a", "assistant 2 b"]);
    let second = vec![assistant("1", "A"), user("3", "c")];
    assert_eq!(after([first, second]).unwrap(), ["assistant 1 A", "assistant 2 b", "user 3 c"]);
}

#[test]
fn a_message_without_an_id_gets_one_of_its_own() {
    let told = after([vec![Message::user("a"), Message::user("a")], vec![Message::user("a")]]).unwrap();
    assert_eq!(told.len(), 3, "{told:?}");
    let ids: std::collections::BTreeSet<_> = told.iter().collect();
    assert_eq!(ids.len(), 3, "{told:?}");
}

#[test]
fn messages_are_removed_by_id() {
    let first = || vec![user("1", "a"), assistant("2", "b")];
    assert_eq!(after([first(), vec![Message::remove("1")]]).unwrap(), ["assistant 2 b"]);
    let again = vec![Message::remove("1"), user("1", "a2")];
    assert_eq!(after([first(), again]).unwrap(), ["user 1 a2", "assistant 2 b"]);
    let mine = vec![user("3", "c"), Message::remove("3")];
    assert_eq!(after([first(), mine]).unwrap(), ["user 1 a", "assistant 2 b"]);
    let error = after([first(), vec![Message::remove("7")]]).unwrap_err();
    assert!(error.contains("the id `7` cannot be removed"), "{error}");
}

#[test]
fn remove_all_leaves_what_follows_its_last() {
    let first = vec![user("1", "a"), assistant("2", "b")];
    let rest = vec![user("8", "x"), Message::remove_all(), user("9", "y"), Message::remove_all(), user("3", "z")];
    assert_eq!(after([first, rest]).unwrap(), ["user 3 z"]);
}

#[test]
fn a_removed_message_can_come_again_at_the_end() {
    let writes = [vec![user("1", "a"), user("2", "b")], vec![Message::remove("1")], vec![user("1", "c")]];
    assert_eq!(after(writes).unwrap(), ["user 2 b", "user 1 c"]);
}

#[test]
fn a_copy_shares_its_messages() {
    let one: Messages = (0..1_000).map(|number| user(&number.to_string(), "text")).collect();
    let mut copy = Chat { messages: one.clone() };
    for write in Chat::update().messages(user("new", "more")).into_writes() {
        copy.reduce(write).unwrap();
    }
    assert_eq!((one.len(), copy.messages.len()), (1_000, 1_001));
    let same = one.iter().zip(copy.messages.iter()).all(|(one, two)| std::ptr::eq(one, two));
    assert!(same, "the messages are the same, not equal ones");
}

#[test]
fn messages_as_json_and_back() {
    let call = ToolCall { name: "rate".to_owned(), args: json!({ "year": 2026 }), id: "c1".to_owned() };
    let messages: Messages =
        [user("1", "hello"), Message::calls("", [call.clone()]).with_id("2"), Message::tool(&call, "7 %").with_id("3")]
            .into();
    let value = serde_json::to_value(&messages).unwrap();
    let expected = json!([
        { "id": "1", "role": "user", "content": "hello" },
        { "id": "2", "role": "assistant", "content": "", "calls": [{ "name": "rate", "args": { "year": 2026 }, "id": "c1" }] },
        { "id": "3", "role": "tool", "content": "7 %", "tool_call_id": "c1", "name": "rate", "status": "success" },
    ]);
    assert_eq!(value, expected);
    assert_eq!(serde_json::from_value::<Messages>(value).unwrap(), messages);
}
