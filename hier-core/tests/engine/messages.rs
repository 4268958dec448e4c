//! The reducer `messages`: the rules of LangGraph's `add_messages`.

use hier_core::checkpoint::codec;
use hier_core::message::{Body, Content, Part, Reasoning, ToolCall, Usage};
use hier_core::prelude::*;
use proptest::bool::weighted;
use proptest::collection::vec;
use proptest::prelude::*;
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
    let received = |message: &Message| {
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
    Ok(chat.messages.iter().map(received).collect())
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
fn message_without_an_id_gets_one() {
    let received = after([vec![Message::user("a"), Message::user("a")], vec![Message::user("a")]]).unwrap();
    assert_eq!(received.len(), 3, "{received:?}");
    let ids: std::collections::BTreeSet<_> = received.iter().collect();
    assert_eq!(ids.len(), 3, "{received:?}");
}

#[test]
fn id_is_given_when_the_message_is_written_not_when_it_is_merged() {
    let writes: Vec<_> =
        Chat::update().messages([Message::user("a"), Message::user("b")]).into_writes().into_iter().collect();
    let (mut first, mut again) = (Chat::default(), Chat::default());
    for write in writes {
        first.reduce(write.clone()).unwrap();
        again.reduce(write).unwrap();
    }
    assert_eq!(first.messages, again.messages, "the same writes applied twice give the same ids");
    assert!(first.messages.iter().all(|message| message.id.is_some()));
    let id = first.messages.get(0).unwrap().id.clone().unwrap();
    assert_eq!(uuid::Uuid::parse_str(&id).unwrap().get_version_num(), 4, "{id}");
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
    assert!(error.contains("no message with the id `7` to remove"), "{error}");
}

#[test]
fn remove_all_keeps_the_messages_behind_the_last_one() {
    let first = vec![user("1", "a"), assistant("2", "b")];
    let rest = vec![user("8", "x"), Message::remove_all(), user("9", "y"), Message::remove_all(), user("3", "z")];
    assert_eq!(after([first, rest]).unwrap(), ["user 3 z"]);
}

#[test]
fn removed_message_can_come_again_at_the_end() {
    let writes = [vec![user("1", "a"), user("2", "b")], vec![Message::remove("1")], vec![user("1", "c")]];
    assert_eq!(after(writes).unwrap(), ["user 2 b", "user 1 c"]);
}

#[test]
fn copy_shares_its_messages() {
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
fn messages_round_trip_through_json() {
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

/// A message of every kind.
fn every_kind() -> Messages {
    let call = ToolCall {
        name: "rate".to_owned(),
        args: json!({ "year": 2026, "to": [1.5, null, "ü"] }),
        id: "c1".to_owned(),
    };
    let parts = [
        Part::text("see"),
        Part::image("https://example.org/1.png"),
        Part::image_data("image/png", "aGk="),
        Part::file("application/pdf", "https://example.org/1.pdf").named("1.pdf"),
        Part::file_data("application/pdf", "aGk="),
    ];
    let thoughts = [
        Reasoning::new("anthropic", "hm").with_data(json!({ "signature": "c2ln" })).at(3),
        Reasoning::new("gemini", "")
            .with_data(json!({ "thoughtSignature": "c2ln", "deep": [{ "a": null }] }))
            .of_call("c1"),
    ];
    [
        Message::system("be kind"),
        Message::user(Content::parts(parts)),
        Message::calls("wait", [call.clone()]).with_usage(Usage::new(10, 2)),
        Message::calls("wait", [call.clone()])
            .with_usage(Usage::new(10, 2).with_cached(7).with_cache_write(1).with_reasoning(2))
            .with_reasoning(thoughts),
        Message::assistant(""),
        Message::tool(&call, "7 %"),
        Message::tool_error(&call, Content::parts([Part::text("no")])),
        Message::remove("x"),
        Message::remove_all(),
    ]
    .into()
}

#[test]
fn every_kind_of_message_survives_a_checkpoint() {
    let messages = every_kind();
    let bytes = codec::encode(&messages).unwrap();
    assert_eq!(codec::decode::<Messages>(&bytes).unwrap(), messages);
    assert_eq!(codec::decode_json(&bytes).unwrap(), serde_json::to_value(&messages).unwrap());
    let text = serde_json::to_string(&messages).unwrap();
    assert_eq!(serde_json::from_str::<Messages>(&text).unwrap(), messages);
}

/// Missing fields are not written: messages without reasoning have the same bytes as before reasoning existed.
#[test]
fn message_without_reasoning_keeps_its_stored_form() {
    let call = ToolCall { name: "rate".to_owned(), args: json!({}), id: "c".to_owned() };
    let message = Message::calls("wait", [call]).with_id("1").with_usage(Usage::new(10, 2));
    let old = json!({
        "role": "assistant", "id": "1", "content": "wait", "calls": [{ "name": "rate", "args": {}, "id": "c" }],
        "usage": { "input_tokens": 10, "output_tokens": 2 },
    });
    assert_eq!(serde_json::to_value(&message).unwrap(), old);
    assert_eq!(serde_json::from_value::<Message>(old).unwrap(), message);
}

/// A message that is written again by its id brings its own reasoning: the old one's is gone with it.
#[test]
fn reasoning_is_merged_with_its_message() {
    let thought = |text: &str| Message::assistant(text).with_id("1").with_reasoning([Reasoning::new("m", text)]);
    let mut chat = Chat::default();
    for messages in [vec![thought("a"), user("2", "b")], vec![thought("c")], vec![user("3", "d")]] {
        for write in Chat::update().messages(messages).into_writes() {
            chat.reduce(write).unwrap();
        }
    }
    let thoughts: Vec<_> = chat.messages.iter().flat_map(Message::reasoning).map(|thought| &*thought.text).collect();
    assert_eq!(thoughts, ["c"]);
    assert_eq!(chat.messages.last_messages(3).iter().flat_map(Message::reasoning).count(), 1);
}

#[test]
fn tool_call_has_its_own_id() {
    let [one, two] = [(), ()].map(|()| Message::call("look", json!({ "q": 1 })));
    assert_ne!(one.tool_calls()[0].id, two.tool_calls()[0].id);
    assert_eq!((one.text(), &one.tool_calls()[0].args), (String::new(), &json!({ "q": 1 })));
    assert_eq!(Message::user(Content::parts([Part::text("a"), Part::file_data("text/plain", "aGk=")])).text(), "a");
}

#[test]
fn incomplete_message_is_refused() {
    let read = |value| serde_json::from_value::<Message>(value).map_err(|error| error.to_string());
    assert!(read(json!({ "role": "user" })).unwrap_err().contains("content"));
    assert!(read(json!({ "role": "tool", "content": "x" })).unwrap_err().contains("tool_call_id"));
    assert!(read(json!({ "role": "usher", "content": "x" })).unwrap_err().contains("usher"));
    assert!(read(json!({ "role": "user", "content": 7 })).unwrap_err().contains("a string, or a list of parts"));
    assert_eq!(read(json!({ "role": "assistant" })).unwrap(), Message::assistant(""));
}

fn ids(messages: &Messages) -> Vec<&str> {
    messages.iter().map(|message| message.id.as_deref().unwrap()).collect()
}

fn call(id: &str) -> ToolCall {
    ToolCall { name: "look".to_owned(), args: json!({}), id: id.to_owned() }
}

#[test]
fn trimming_keeps_calls_with_their_results() {
    let talk: Messages = [
        Message::system("be kind").with_id("s"),
        user("1", "hello"),
        Message::calls("", [call("a"), call("b")]).with_id("2"),
        Message::tool(&call("b"), "B").with_id("3"),
        Message::tool(&call("a"), "A").with_id("4"),
        assistant("5", "done"),
    ]
    .into();
    assert_eq!(ids(&talk.last_messages(9)), ["s", "1", "2", "3", "4", "5"]);
    assert_eq!(ids(&talk.last_messages(4)), ["s", "2", "3", "4", "5"]);
    assert_eq!(ids(&talk.last_messages(3)), ["s", "5"], "a result without its call goes");
    assert_eq!(ids(&talk.last_messages(0)), ["s"]);
    let length = |message: &Message| message.content().map_or(0, |content| content.text().len());
    assert_eq!(ids(&talk.last_within(7 + 4, length)), ["s", "5"], "`be kind` and `done`");
    assert_eq!(ids(&talk.last_within(7 + 4 + 2, length)), ["s", "2", "3", "4", "5"]);
    assert_eq!(ids(&talk.last_within(0, length)), ["s"], "the system's words are never cut");
}

#[test]
fn result_without_a_call_is_trimmed() {
    let talk: Messages = [user("1", "hello"), Message::tool(&call("a"), "A").with_id("2"), assistant("3", "hm")].into();
    assert_eq!(ids(&talk.last_messages(3)), ["3"]);
}

/// The rules in their simplest form: a write of `(id, remove)` to a list of `(id, number of the write)`.
fn naive(list: &mut Vec<(u8, usize)>, write: usize, messages: &[(u8, bool)]) {
    let mut removed = Vec::new();
    for (id, remove) in messages {
        match (list.iter_mut().find(|(known, _)| known == id), remove) {
            (Some(_), true) => removed.push(*id),
            (None, true) => {}
            (Some(known), false) => {
                known.1 = write;
                removed.retain(|other| other != id);
            }
            (None, false) => list.push((*id, write)),
        }
    }
    list.retain(|(id, _)| !removed.contains(id));
}

proptest! {
    /// Short conversations and long ones, which are looked up in different ways.
    #[test]
    fn merging_by_id_is_the_same_for_any_length(writes in vec(vec((0..40_u8, weighted(0.2)), 0..30), 0..8)) {
        let (mut chat, mut known) = (Chat::default(), Vec::new());
        for (number, messages) in writes.iter().enumerate() {
// Removing a missing message is an error, which is tested above.
            let mut there: Vec<u8> = known.iter().map(|(id, _)| *id).collect();
            let mut fit = Vec::new();
            for (id, remove) in messages {
                if *remove && !there.contains(id) { continue }
                there.push(*id);
                fit.push((*id, *remove));
            }
            let made = fit.iter().map(|(id, remove)| match remove {
                true => Message::remove(id.to_string()),
                false => user(&id.to_string(), &number.to_string()),
            });
            for write in Chat::update().messages(made.collect::<Vec<_>>()).into_writes() {
                prop_assert!(chat.reduce(write).is_ok());
            }
            naive(&mut known, number, &fit);
            let received: Vec<(String, String)> = chat.messages.iter()
                .map(|message| (message.id.clone().unwrap_or_default(), message.content().expect("a text").text()))
                .collect();
            let wanted: Vec<_> = known.iter().map(|(id, number)| (id.to_string(), number.to_string())).collect();
            prop_assert_eq!(received, wanted);
        }
    }
}
