//! Compares the engine's results with the LangGraph recordings.

use std::collections::BTreeSet;

use serde_json::Value;

use super::hierarchy_run::{self, Answers};
use super::run::Calls;
use super::scenario::Object;

/// The first place where two answers differ. A missing value is `None`.
#[derive(Debug, PartialEq)]
pub(crate) struct Difference {
    pub(crate) place: String,
    pub(crate) expected: Option<Value>,
    pub(crate) got: Option<Value>,
}

/// Compares a refused graph with the recording. The message is not compared.
pub(crate) fn refused(expect: &Object, message: &str) -> Option<Difference> {
    (!refuses(expect)).then(|| Difference {
        place: "compile_error".to_owned(),
        expected: None,
        got: Some(Value::from(message)),
    })
}

/// Compares the results of the calls with the recording, and the streamed runs with the runs without a stream.
pub(crate) fn calls(expect: &Object, calls: Calls) -> Option<Difference> {
    if refuses(expect) {
        let expected = expect.get("message").cloned().or(Some(Value::Bool(true)));
        return Some(Difference { place: "compile_error".to_owned(), expected, got: None });
    }
    let recorded = difference("calls", expect.get("calls"), Some(&Value::Array(calls.events)));
    let (ends, quiet_ends) = (Value::Array(calls.ends), Value::Array(calls.quiet_ends));
    recorded.or_else(|| difference("the same without a stream", Some(&ends), Some(&quiet_ends)))
}

/// Compares the results of a hierarchy with the recording, and the invoked run with the streamed one.
pub(crate) fn answers(expect: &Object, answers: &Answers) -> Option<Difference> {
    let prompts = expect.get("prompts").map(hierarchy_run::paired_prompts);
    let keys = ["final", "error", "script_left"];
    let recorded = difference("prompts", prompts.as_ref(), answers.alone.get("prompts"));
    let recorded =
        recorded.or_else(|| keys.iter().find_map(|key| difference(key, expect.get(*key), answers.alone.get(key))));
    recorded.or_else(|| difference("the same streamed", Some(&answers.alone), Some(&answers.streamed)))
}

fn refuses(expect: &Object) -> bool {
    expect.get("compile_error").is_some_and(|refused| *refused == Value::Bool(true))
}

/// Returns the first difference at or below a place. Keys are visited in alphabetical order, items by index.
fn difference(place: &str, expected: Option<&Value>, got: Option<&Value>) -> Option<Difference> {
    match (expected, got) {
        (Some(Value::Object(expected)), Some(Value::Object(got))) => {
            // The key order of JSON objects depends on a feature of `serde_json` that other crates may enable.
            let keys: BTreeSet<&String> = expected.keys().chain(got.keys()).collect();
            keys.into_iter().find_map(|key| difference(&format!("{place}.{key}"), expected.get(key), got.get(key)))
        }
        (Some(Value::Array(expected)), Some(Value::Array(got))) => (0..expected.len().max(got.len()))
            .find_map(|item| difference(&format!("{place}[{item}]"), expected.get(item), got.get(item))),
        (Some(Value::Number(expected)), Some(Value::Number(got)))
            // JSON has one number type: 1 equals 1.0.
            if expected == got || expected.as_f64() == got.as_f64() && (expected.is_f64() || got.is_f64()) => None,
        (expected, got) if expected == got => None,
        _ => Some(Difference { place: place.to_owned(), expected: expected.cloned(), got: got.cloned() }),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{Calls, Difference, calls, difference, refused};

    fn diff(expected: &Value, got: &Value) -> Option<Difference> {
        difference("calls", Some(expected), Some(got))
    }

    #[test]
    fn comparison_ignores_key_order_and_number_form() {
        assert_eq!(diff(&json!({"a": 1, "b": [2.0]}), &json!({"b": [2], "a": 1.0})), None);
    }

    #[test]
    fn difference_names_its_location() {
        let found = diff(&json!([{"a": [1, 2]}]), &json!([{"a": [1]}]));
        let expected = Difference { place: "calls[0].a[1]".to_owned(), expected: Some(json!(2)), got: None };
        assert_eq!(found, Some(expected));
        let found = diff(&json!([{"a": null}]), &json!([{"a": null, "b": null}]));
        assert_eq!(found.map(|found| (found.place, found.got)), Some(("calls[0].b".to_owned(), Some(json!(null)))));
    }

    #[test]
    fn run_without_listeners_ends_equally() {
        let expect = json!({"calls": [{"steps": []}]});
        let (events, ends, quiet_ends) = (vec![json!({"steps": []})], vec![json!({"x": 1})], vec![json!({"x": 2})]);
        let found = calls(expect.as_object().unwrap(), Calls { events, ends, quiet_ends });
        assert_eq!(found.map(|found| found.place).as_deref(), Some("the same without a stream[0].x"));
    }

    #[test]
    fn refusals_are_compared_without_their_text() {
        let expect = json!({"compile_error": true, "message": "no"});
        let expect = expect.as_object().unwrap();
        assert_eq!(refused(expect, "other words"), None);
        assert_eq!(calls(expect, Calls::default()).unwrap().expected, Some(json!("no")));
        let expect = json!({"calls": []});
        assert_eq!(refused(expect.as_object().unwrap(), "words").unwrap().got, Some(json!("words")));
    }
}
