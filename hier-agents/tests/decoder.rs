//! Arbitrary bytes of a database decode to a value or an error, and never cause a panic, an overflow or a great lot of
//! memory. `PROPTEST_CASES=1000000 cargo test --release --test decoder` looks longer.

use std::collections::BTreeMap;

use hier_agents::prelude::*;
use hier_agents::{Progress, TodoList};
use hier_core::checkpoint::Checkpoint;
use hier_core::checkpoint::codec::{decode, decode_json, encode};
use hier_core::message::{Message, Messages, ToolCall};
use proptest::collection::vec;
use proptest::prelude::*;
use serde_json::{Value, json};

/// Reads these bytes as everything that a saver or a channel may expect.
fn read_as_all(bytes: &[u8]) {
    let _ = decode_json(bytes);
    let _ = decode::<Value>(bytes);
    let _ = decode::<Checkpoint>(bytes);
    let _ = decode::<BaseState>(bytes);
    let _ = decode::<Messages>(bytes);
    let _ = decode::<Message>(bytes);
    let _ = decode::<Progress>(bytes);
    let _ = decode::<TodoList>(bytes);
    let _ = decode::<Option<ToolCall>>(bytes);
    let _ = decode::<BTreeMap<String, Vec<Option<f64>>>>(bytes);
    let _ = decode::<(String, Vec<u8>, u64, bool)>(bytes);
    let _ = decode::<String>(bytes);
}

/// Something real.
fn state() -> BaseState {
    let call = ToolCall { name: "look".to_owned(), args: json!({"page": [1, 2.5, null]}), id: "1".to_owned() };
    BaseState {
        messages: [Message::user("a question"), Message::calls("", [call.clone()]), Message::tool(&call, "7 %")].into(),
        current_tool_call: Some(call),
        todo_list: [("look", true), ("report", false)].into_iter().collect(),
        ..BaseState::default()
    }
}

proptest! {
    #[test]
    fn decoder_accepts_or_rejects_any_bytes(mut bytes in vec(any::<u8>(), 0..200), codec in 0..4_u8) {
        bytes.insert(0, codec);
        read_as_all(&bytes);
    }

    #[test]
    fn mutated_values_are_read_or_rejected(
        changes in vec((any::<prop::sample::Index>(), any::<u8>()), 1..8),
        cut in any::<prop::sample::Index>(),
    ) {
        let mut bytes = encode(&state()).expect("bytes");
        for (place, byte) in changes {
            let place = place.index(bytes.len());
            bytes[place] = byte;
        }
        read_as_all(&bytes);
        bytes.truncate(cut.index(bytes.len()));
        read_as_all(&bytes);
    }
}

#[test]
fn stored_values_can_be_read_and_deep_ones_are_rejected() {
    let mut refused = 0;
    for depth in 1..300 {
        let lists = (0..depth).fold(json!(1), |inner, _| json!([inner]));
        let objects = (0..depth).fold(json!(1), |inner, _| json!({ "x": inner }));
        for value in [lists, objects] {
            match encode(&value) {
                Ok(bytes) => assert_eq!(decode::<Value>(&bytes).expect("the same"), value),
                Err(error) => {
                    assert!(error.to_string().contains("nested deeper than 128 levels"), "{error}");
                    refused += 1;
                }
            }
        }
    }
    assert_eq!(refused, 2 * (299 - 128));
}

#[test]
fn claimed_lengths_and_depths_are_bounded() {
    let count = 200_000;
    for (name, opening, closing) in [
        ("lists in lists", vec![0x91; count], vec![0xc0]),
        ("objects in objects", [0x81, 0xa1, b'x'].repeat(count), vec![0xc0]),
        ("a list of four billion", vec![0xdd, 0xff, 0xff, 0xff, 0xff], vec![0xc0; 10]),
        ("an object of four billion", vec![0xdf, 0xff, 0xff, 0xff, 0xff], vec![0xa1, b'x', 0xc0]),
        ("a text of four billion", vec![0xdb, 0xff, 0xff, 0xff, 0xff], b"short".to_vec()),
        ("bytes of four billion", vec![0xc6, 0xff, 0xff, 0xff, 0xff], b"short".to_vec()),
        ("an extension", vec![0xc9, 0xff, 0xff, 0xff, 0xff, 7], b"short".to_vec()),
    ] {
        let bytes: Vec<u8> = [vec![1], opening, closing].concat();
        assert!(decode_json(&bytes).is_err(), "{name}");
        assert!(decode::<Value>(&bytes).is_err(), "{name}");
        read_as_all(&bytes);
    }
}
