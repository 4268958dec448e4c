//! Messages as clients of other frameworks write them: read where the type is a message, with nothing lost.

use hier_core::checkpoint::codec;
use hier_core::message::{Body, Content, Part, ToolCall, Usage};
use hier_core::prelude::*;
use serde_json::{Value, json};

fn read(value: Value) -> Messages {
    serde_json::from_value(value).expect("messages")
}

/// The messages as hier writes them, without ids.
fn written(value: Value) -> Vec<Value> {
    let messages = read(value);
    let bytes = codec::encode(&messages).expect("a checkpoint");
    assert_eq!(codec::decode::<Messages>(&bytes).expect("the same messages"), messages, "a checkpoint keeps them");
    let without_id = |message: &Message| serde_json::to_value(Message { id: None, ..message.clone() }).expect("JSON");
    messages.iter().map(without_id).collect()
}

#[test]
fn shorthands_of_langchain_are_messages() {
    let hello = json!({ "role": "user", "content": "hello" });
    for (short, expected) in [
        (json!("hello"), vec![hello.clone()]),
        (json!(["hello"]), vec![hello.clone()]),
        (json!({ "role": "user", "content": "hello" }), vec![hello.clone()]),
        (json!({ "type": "human", "content": "hello" }), vec![hello.clone()]),
        (
            json!([["user", "hello"], ["ai", "hi"]]),
            vec![hello.clone(), json!({ "role": "assistant", "content": "hi" })],
        ),
        // As in LangChain, where only a tuple is a pair.
        (json!(["user", "hello"]), vec![json!({ "role": "user", "content": "user" }), hello.clone()]),
        (
            json!([{ "lc": 1, "type": "constructor", "id": ["langchain_core", "messages", "HumanMessage"], "kwargs": { "content": "hello" } }]),
            vec![hello.clone()],
        ),
    ] {
        assert_eq!(written(short.clone()), expected, "{short}");
    }
    let error = |value: Value| serde_json::from_value::<Messages>(value).unwrap_err().to_string();
    assert!(error(json!([["user", "a", "b"]])).contains("a pair of a role and a content"));
    assert!(error(json!([["nobody", "a"]])).contains("`nobody` is not a role"));
    assert!(error(json!([{ "content": "a" }])).contains("missing field `role`"));
    assert!(error(json!([{ "role": "user", "content": "a", "id": 5 }])).contains("`id` of a message must be a string"));
    assert!(error(json!(5)).contains("a list of messages, one message, or a string"));
}

#[test]
fn fields_that_hier_does_not_know_are_kept() {
    let sent = json!([
        {
            "type": "human", "content": "x", "id": "1", "name": "ann", "additional_kwargs": { "k": 1 },
            "response_metadata": {}, "example": false, "metadata": { "page": 3 },
        },
        { "type": "tool", "content": "x", "id": "2", "tool_call_id": "c", "name": "look", "artifact": { "rows": [1] }, "status": "error" },
        { "type": "ai", "content": null, "id": "3", "tool_calls": [], "invalid_tool_calls": [], "usage_metadata": { "input_tokens": 3, "output_tokens": 4, "total_tokens": 7 } },
    ]);
    let messages = read(sent);
    let extra: Vec<Value> = messages.iter().map(|message| json!(message.extra)).collect();
    assert_eq!(
        extra,
        [
            json!({ "name": "ann", "additional_kwargs": { "k": 1 }, "example": false, "metadata": { "page": 3 } }),
            json!({ "artifact": { "rows": [1] } }),
            json!({}),
        ]
    );
    assert_eq!(messages.get(2).and_then(Message::usage), Some(Usage::new(3, 4)));
    let json = serde_json::to_value(&messages).expect("JSON");
    assert_eq!(read(json), messages);
}

#[test]
fn tool_calls_are_read_in_all_forms() {
    let call = |call: Value| {
        let messages = read(json!([{ "role": "assistant", "content": "", "tool_calls": [call] }]));
        messages.get(0).expect("a message").tool_calls()[0].clone()
    };
    let look = ToolCall { name: "look".into(), args: json!({ "at": 1 }), id: "c1".into() };
    assert_eq!(call(json!({ "name": "look", "args": { "at": 1 }, "id": "c1", "type": "tool_call" })), look);
    let function = json!({ "name": "look", "arguments": "{\"at\":1}" });
    assert_eq!(call(json!({ "id": "c1", "type": "function", "function": function })), look);
    let fresh = call(json!({ "name": "look", "args": {}, "id": null }));
    assert!(fresh.id.starts_with("call_") && fresh.id.len() > 20, "{fresh:?}");
    let without_args = ToolCall { args: json!({}), ..look };
    assert_eq!(call(json!({ "name": "look", "args": null, "id": "c1" })), without_args);
    for arguments in [json!(null), json!(""), json!(" "), json!("null"), json!("{}")] {
        let function = json!({ "name": "look", "arguments": arguments });
        assert_eq!(call(json!({ "id": "c1", "type": "function", "function": function })), without_args);
    }
    let missing = json!([{ "role": "assistant", "tool_calls": [{ "name": "look", "id": "c1" }] }]);
    let error = serde_json::from_value::<Messages>(missing).unwrap_err().to_string();
    assert!(error.contains("missing field `args`"), "{error}");
    let broken = json!([{ "role": "assistant", "tool_calls": [{ "function": { "name": "look", "arguments": "{" } }] }]);
    let error = serde_json::from_value::<Messages>(broken).unwrap_err().to_string();
    assert!(error.contains("the `arguments` of a call are not JSON"), "{error}");
}

#[test]
fn content_blocks_are_kept_unchanged() {
    let blocks = json!([
        { "type": "text", "text": "see ", "index": 0 },
        { "type": "image", "mimeType": "image/png", "data": "aGk=", "metadata": { "name": "dot.png" } },
        { "type": "image_url", "image_url": { "url": "https://x.example/1.png", "detail": "low" } },
        { "type": "image", "url": "https://x.example/1.png" },
        { "type": "file", "mimeType": "application/pdf", "data": "aGk=", "metadata": { "filename": "a.pdf" } },
        { "type": "text-plain", "text": "note", "mime_type": "text/plain" },
        { "type": "thinking", "thinking": "hm", "signature": "s" },
        { "type": "file", "file_id": "f1" },
    ]);
    let messages = read(json!([{ "type": "human", "content": blocks }]));
    let content = messages.get(0).and_then(Message::content).expect("content");
    assert_eq!(serde_json::to_value(content).expect("JSON"), blocks);
    assert_eq!(content.text(), "see note");
    let Content::Parts(parts) = content else { panic!("{content:?}") };
    assert_eq!(parts[3], Part::image("https://x.example/1.png"), "the form of hier is that part");
    let resolved: Vec<Option<Part>> =
        parts.iter().map(|part| part.resolved().map(std::borrow::Cow::into_owned)).collect();
    assert_eq!(resolved[1], Some(Part::image_data("image/png", "aGk=")));
    assert_eq!(resolved[4], Some(Part::file_data("application/pdf", "aGk=").named("a.pdf")));
    assert_eq!((&resolved[6], &resolved[7]), (&None, &None));
    let error = serde_json::from_value::<Messages>(json!([{ "role": "user", "content": [{ "text": "x" }] }]));
    assert!(error.unwrap_err().to_string().contains("missing field `type`"));
}

#[test]
fn removing_all_messages_merges_the_following_ones() {
    #[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
    struct Chat {
        #[reducer(messages)]
        messages: Messages,
    }
    let mut chat = Chat { messages: [Message::user("old").with_id("0")].into() };
    let update = read(json!([
        { "type": "remove", "id": "__remove_all__" },
        { "type": "human", "content": "a", "id": "1" },
        { "type": "human", "content": "gone", "id": "2" },
        { "type": "remove", "id": "2" },
        { "type": "human", "content": "b", "id": "1" },
    ]));
    assert_eq!(update.get(0), Some(&Message::remove_all()));
    for write in Chat::update().messages(update).into_writes() {
        chat.reduce(write).expect("a merge");
    }
    assert_eq!(chat.messages, Messages::from([Message::user("b").with_id("1")]));
    assert!(matches!(read(json!([{ "type": "remove", "id": "x" }])).get(0).expect("one").body, Body::Remove));
}
