//! Deltas of calls, in the styles of different servers.

use super::*;

fn openai_calls(calls: &[Value], finish: &str) -> String {
    let deltas = calls.iter().map(|call| openai_delta(&json!({ "tool_calls": [call] }), None));
    let all: Vec<_> = deltas.chain([openai_delta(&json!({}), Some(finish))]).collect();
    events(&all) + "data: [DONE]\n\n"
}

/// A name, the deltas, and the expected calls.
type DeltaCase<'a> = (&'a str, Vec<Value>, Vec<(&'a str, Value)>);

fn piece(index: Option<u32>, id: &str, name: &str, args: &str) -> Value {
    let mut call = json!({ "function": { "name": name, "arguments": args } });
    if let Some(index) = index {
        call["index"] = json!(index);
    }
    if !id.is_empty() {
        call["id"] = json!(id);
    }
    call
}

fn check_calls(cases: Vec<DeltaCase<'_>>) {
    for (what, calls, expected) in cases {
        let answer = read(OPENAI, &[openai_calls(&calls, "tool_calls").as_bytes()]).unwrap();
        let made: Vec<_> = answer.message.tool_calls().iter().map(|call| (&*call.name, call.args.clone())).collect();
        assert_eq!(made, expected, "{what}");
    }
}

/// A delta belongs to a call by number and id, otherwise by id, otherwise to the last call.
#[test]
fn deltas_join_their_call() {
    let cases: Vec<DeltaCase<'_>> = vec![
        (
            "no number",
            vec![piece(None, "a", "pay", "{\"eur\":"), piece(None, "", "", "5}")],
            vec![("pay", json!({ "eur": 5 }))],
        ),
        (
            "number 1 only",
            vec![piece(Some(1), "a", "pay", "{\"eur\":"), piece(Some(1), "", "", "5}")],
            vec![("pay", json!({ "eur": 5 }))],
        ),
        ("number 1 only, whole", vec![piece(Some(1), "a", "pay", "{\"eur\":5}")], vec![("pay", json!({ "eur": 5 }))]),
        ("null", vec![piece(Some(0), "a", "look", "null")], vec![("look", json!({}))]),
        (
            "number 1 first",
            vec![piece(Some(1), "b", "look", "{}"), piece(Some(0), "a", "pay", "{\"eur\":5}")],
            vec![("pay", json!({ "eur": 5 })), ("look", json!({}))],
        ),
        (
            "one number for two ids",
            vec![piece(Some(0), "a", "pay", "{\"eur\":5}"), piece(Some(0), "b", "look", "{}")],
            vec![("pay", json!({ "eur": 5 })), ("look", json!({}))],
        ),
        (
            "id and name each time",
            vec![piece(Some(0), "a", "pay", "{\"eur\":"), piece(Some(0), "a", "pay", "5}")],
            vec![("pay", json!({ "eur": 5 }))],
        ),
        (
            "two names and nothing else",
            vec![piece(None, "", "pay", "{}"), piece(None, "", "look", "{}")],
            vec![("pay", json!({})), ("look", json!({}))],
        ),
        ("a number beyond all bounds", vec![piece(Some(u32::MAX), "a", "pay", "{}")], vec![("pay", json!({}))]),
        ("no arguments", vec![piece(Some(0), "a", "pay", "")], vec![("pay", json!({}))]),
        (
            "a new id each time",
            vec![
                piece(Some(0), "a", "pay", ""),
                piece(Some(0), "b", "", "{\"eur\":"),
                piece(Some(0), "c", "", "5}"),
                piece(Some(1), "d", "look", "{}"),
            ],
            vec![("pay", json!({ "eur": 5 })), ("look", json!({}))],
        ),
        (
            "a new id each time, and no number",
            vec![piece(None, "a", "pay", ""), piece(None, "b", "", "{\"eur\":"), piece(None, "c", "", "5}")],
            vec![("pay", json!({ "eur": 5 }))],
        ),
        (
            "one number for two calls of one tool without ids",
            vec![piece(Some(0), "", "pay", "{\"eur\":5}"), piece(Some(0), "", "pay", "{\"eur\":6}")],
            vec![("pay", json!({ "eur": 5 })), ("pay", json!({ "eur": 6 }))],
        ),
        (
            "one number for two calls of one tool with ids",
            vec![piece(Some(0), "a", "pay", "{\"eur\":5}"), piece(Some(0), "b", "pay", "{\"eur\":6}")],
            vec![("pay", json!({ "eur": 5 })), ("pay", json!({ "eur": 6 }))],
        ),
        (
            "one number for two tools without ids",
            vec![piece(Some(0), "", "look", ""), piece(Some(0), "", "pay", "{\"eur\":6}")],
            vec![("look", json!({})), ("pay", json!({ "eur": 6 }))],
        ),
        (
            "two objects in one call without an id",
            vec![piece(Some(0), "", "pay", "{\"eur\":5} {\"e"), piece(Some(0), "", "", "ur\":\"}{\"}")],
            vec![("pay", json!({ "eur": 5 })), ("pay", json!({ "eur": "}{" }))],
        ),
        ("two objects in one call with an id", vec![piece(Some(0), "a", "pay", "{}{}")], vec![("pay", json!("{}{}"))]),
        (
            "the name each time, without an id",
            vec![piece(None, "", "pay", "{\"eur\":"), piece(None, "", "pay", "5}"), piece(None, "", "pay", "{}")],
            vec![("pay", json!({ "eur": 5 })), ("pay", json!({}))],
        ),
    ];
    check_calls(cases);
}

#[test]
fn empty_piece_of_a_tool_without_ids_makes_no_call() {
    check_calls(vec![
        (
            "the name each time, with an empty end, without an id",
            vec![
                piece(Some(0), "", "pay", "{\"eur\":"),
                piece(Some(0), "", "pay", "5}"),
                piece(Some(0), "", "pay", ""),
            ],
            vec![("pay", json!({ "eur": 5 }))],
        ),
        (
            "an empty start of a second call without an id",
            vec![piece(None, "", "pay", "{\"eur\":5}"), piece(None, "", "pay", ""), piece(None, "", "", "{\"eur\":6}")],
            vec![("pay", json!({ "eur": 5 })), ("pay", json!({ "eur": 6 }))],
        ),
    ]);
}

#[test]
fn truncated_call_has_text_arguments() {
    for args in ["", "{\"eur\":", "{\"eur\":5}"] {
        let call = json!({ "index": 0, "id": "a", "function": { "name": "pay", "arguments": args } });
        let answer = read(OPENAI, &[openai_calls(&[call], "length").as_bytes()]).unwrap();
        let call = &answer.message.tool_calls()[0];
        assert!(call.args.as_str().is_some_and(|args| args.starts_with("cut off")), "{call:?}");
        assert_eq!(answer.finish, Some(FinishReason::Length));
    }
}
