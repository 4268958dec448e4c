//! Calls of tools that run in the client: questions of the form `{"type": "tool", "toolCall": {"id": …, …}}`. Not
//! public API, and exempt from semver.

use std::collections::HashMap;

use serde_json::{Map, Value};

use super::Question;

/// Returns the tool call whose result answers a question with this value. Returns `None` if the question does not wait
/// for a client tool.
pub fn of_question(value: &Value) -> Option<&Map<String, Value>> {
    let is_tool = value.get("type").and_then(Value::as_str) == Some("tool");
    let call = value.get("toolCall").and_then(Value::as_object).filter(|_| is_tool)?;
    call.get("id")?.is_string().then_some(call)
}

/// Returns the id of the tool call whose result answers a question with this value. Returns `None` if the question does
/// not wait for a client tool.
pub fn id(value: &Value) -> Option<&str> {
    of_question(value)?.get("id")?.as_str()
}

/// An open question, as [`answers`] needs it.
#[derive(Clone, Copy, Debug)]
pub struct OpenCall<'a> {
    /// The id of the question.
    pub id: &'a str,
    /// The id of the tool call whose result answers the question. `None` if the question does not wait for a client
    /// tool.
    pub call: Option<&'a str>,
    /// The JSON Schema of the answer, if it is known.
    pub schema: Option<&'a Value>,
}

impl<'a> OpenCall<'a> {
    /// Creates the description of a question.
    pub fn of(question: &'a Question) -> Self {
        Self { id: &question.id, call: id(&question.value), schema: question.schema.as_ref() }
    }
}

/// Returns true if a string has the form of a question's id: 32 hexadecimal digits.
pub fn is_question_id(key: &str) -> bool {
    key.len() == 32 && key.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// Returns `resume` as an object of answers whose keys are ids of questions. Returns `None` if `resume` is not an
/// object with fields, or if one of its keys does not have the form of a question's id.
pub fn by_id(resume: &Value) -> Option<&Map<String, Value>> {
    resume.as_object().filter(|resume| !resume.is_empty() && resume.keys().all(|key| is_question_id(key)))
}

/// Converts `resume` to an object of answers whose keys are ids of questions. In `resume`, the keys may also be ids of
/// client tool calls. LangGraph's clients send one of the forms `{CALL: result}`, `{QUESTION: result}` and `{QUESTION:
/// {CALL: result}}`. Returns `None` if `resume` is an answer without ids.
///
/// # Errors
///
/// Fails if a client tool call is open and `resume` is an object with an unknown key, because the object may be the
/// late result of an earlier call. The error lists the open calls. There is one exception: if a single question is open
/// and `resume` [may be](may_be_result) the answer to it, the function returns `None`.
pub fn answers(resume: &Value, open: &[OpenCall<'_>]) -> Result<Option<Value>, String> {
    let Some(given) = resume.as_object().filter(|given| !given.is_empty()) else { return Ok(None) };
    // A client can send 100,000 answers to many questions.
    let (mut of_call, mut of_id) = (HashMap::<&str, Vec<_>>::new(), HashMap::new());
    for asked in open {
        if let Some(call) = asked.call {
            of_call.entry(call).or_default().push(asked);
        }
        of_id.entry(asked.id).or_insert(asked);
    }
    let by_question = given.iter().map(|(key, answer)| match of_call.get(&**key).map_or(&[][..], Vec::as_slice) {
        [asked] => Ok((asked.id.to_owned(), answer.clone())),
        [] if is_question_id(key) => Ok((key.clone(), without_call(of_id.get(&**key).copied(), answer).clone())),
        several => Err((key, several.len())),
    });
    let (key, count) = match by_question.collect::<Result<Map<_, _>, _>>() {
        Ok(by_question) => return Ok(Some(Value::Object(by_question))),
        Err(unknown) => unknown,
    };
    let calls: Vec<String> = open.iter().filter_map(|asked| Some(format!("`{}`", asked.call?))).collect();
    if calls.is_empty() || matches!(open, [only] if may_be_result(resume, only.schema)) {
        return Ok(None);
    }
    let what = if count > 1 { "several open calls have this id" } else { "no open call has this id" };
    Err(format!(
        "`{key}`: {what}; open: {}. Send a result as `{{\"<id of the call or its question>\": result}}`",
        calls.join(", ")
    ))
}

/// Returns the result of an answer `{CALL: result}` to the question of that call, or the answer itself.
fn without_call<'a>(asked: Option<&OpenCall<'_>>, answer: &'a Value) -> &'a Value {
    let call = asked.and_then(|asked| asked.call);
    let fields = answer.as_object().filter(|fields| fields.len() == 1);
    call.zip(fields).and_then(|(call, fields)| fields.get(call)).unwrap_or(answer)
}

/// Returns true if `answer` can be the result of a client tool call, rather than an object whose keys are ids of other
/// calls. `schema` is the JSON Schema of the result. The function returns true in four cases:
///
/// * The answer is not an object with fields.
/// * The answer reports a failure: the only field is `error`, with a string.
/// * The schema declares one of the answer's fields.
/// * The schema is unknown, and the answer has several fields.
pub fn may_be_result(answer: &Value, schema: Option<&Value>) -> bool {
    let Some(fields) = answer.as_object().filter(|fields| !fields.is_empty()) else { return true };
    let is_failure = fields.len() == 1 && fields.get("error").is_some_and(Value::is_string);
    let declares = |schema| fields.keys().any(|field| declares(schema, schema, field, MOST_LEVELS));
    is_failure || schema.map_or(fields.len() > 1, declares)
}

/// The maximum number of nested references and alternatives that are searched for a field.
const MOST_LEVELS: usize = 16;

/// Returns true if a part of a schema declares a field of the value itself.
fn declares(root: &Value, part: &Value, field: &str, levels: usize) -> bool {
    let Some(levels) = levels.checked_sub(1) else { return false };
    let in_part = |part: &Value| declares(root, part, field, levels);
    let referred = part.get("$ref").and_then(Value::as_str).and_then(|place| root.pointer(place.strip_prefix('#')?));
    let mut alternatives = ["anyOf", "oneOf", "allOf"].iter().filter_map(|kind| part.get(kind)?.as_array()).flatten();
    part.get("properties").is_some_and(|fields| fields.get(field).is_some())
        || referred.is_some_and(in_part)
        || alternatives.any(in_part)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const Q1: &str = "0000000000000000000000000000000a";
    const Q2: &str = "0000000000000000000000000000000b";
    const Q3: &str = "0000000000000000000000000000000c";

    fn open<'a>(id: &'a str, call: Option<&'a str>) -> OpenCall<'a> {
        OpenCall { id, call, schema: None }
    }

    #[test]
    fn answers_by_the_ids_of_calls_are_translated() {
        let open = [open(Q1, Some("c1")), open(Q2, Some("c2")), open(Q3, None)];
        let answers = |resume: Value| answers(&resume, &open).expect("known ids");
        assert_eq!(answers(json!({ "c1": { "at": 1 } })), Some(json!({ Q1: { "at": 1 } })));
        assert_eq!(answers(json!({ "c1": 1, "c2": null })), Some(json!({ Q1: 1, Q2: null })));
        let nested = json!({ Q1: { "c1": 1 }, Q2: { "at": 2 }, Q3: { "c1": 3 } });
        assert_eq!(answers(nested), Some(json!({ Q1: 1, Q2: { "at": 2 }, Q3: { "c1": 3 } })));
        assert_eq!(answers(json!({ "c1": 1, Q3: 3 })), Some(json!({ Q1: 1, Q3: 3 })));
    }

    /// A loop in a loop over the answers and questions would not end within minutes.
    #[test]
    fn many_answers_find_their_questions() {
        let ids: Vec<(String, String)> =
            (0..100_000).map(|n| (format!("{n:032x}"), format!("call {n:032x}"))).collect();
        let calls: Vec<OpenCall<'_>> = ids.iter().map(|(id, call)| open(id, Some(call))).collect();
        let wanted: Map<String, Value> = ids.iter().zip(0..).map(|((id, _), n)| (id.clone(), Value::from(n))).collect();
        let mut given = Map::new();
        for ((id, call), n) in ids.iter().zip(0..) {
            let (key, answer) = if n % 2 == 0 { (call, json!(n)) } else { (id, json!({ call: n })) };
            given.insert(key.clone(), answer);
        }
        assert_eq!(answers(&given.into(), &calls), Ok(Some(wanted.into())));
    }

    #[test]
    fn answers_without_ids_stay_as_they_are() {
        let person = [open(Q3, None)];
        for resume in [json!("yes"), json!({}), json!({ "c1": 1 }), json!([1])] {
            assert_eq!(answers(&resume, &person), Ok(None), "{resume}");
        }
        for resume in [json!("yes"), json!({}), json!([{ "c9": 1 }]), json!({ "name": "a.md", "text": "A" })] {
            assert_eq!(answers(&resume, &[open(Q1, Some("c1"))]), Ok(None), "{resume}");
        }
    }

    #[test]
    fn result_of_another_call_is_refused() {
        let calls = [open(Q1, Some("c1")), open(Q2, Some("c2")), open(Q3, Some("c2"))];
        for (resume, open, reason) in [
            (json!({ "c9": 1 }), &calls[..1], "`c9`: no open call has this id; open: `c1`."),
            (json!({ "c1": 1, "c9": 1 }), &calls[..2], "`c9`: no open call has this id; open: `c1`, `c2`."),
            (json!({ "c2": 1 }), &calls[..], "`c2`: several open calls have this id; open: `c1`, `c2`, `c2`."),
        ] {
            let refused = answers(&resume, open).expect_err("it is refused");
            assert!(refused.starts_with(reason), "{refused}");
        }
    }

    #[test]
    fn object_without_an_id_has_a_declared_field() {
        let picked = json!({ "type": "object", "properties": { "name": { "properties": { "c9": {} } } } });
        let schema = json!({ "anyOf": [{ "$ref": "#/$defs/Picked" }, {}], "$defs": { "Picked": picked } });
        for (answer, may_be) in [
            (json!({ "name": "a.md", "more": 1 }), true),
            (json!({ "error": "no" }), true),
            (json!({ "error": { "name": "a.md" } }), false),
            (json!({ "c9": { "name": "a.md" } }), false),
            (json!({}), true),
            (json!("a.md"), true),
        ] {
            assert_eq!(may_be_result(&answer, Some(&schema)), may_be, "{answer}");
            let only = [OpenCall { id: Q1, call: Some("c1"), schema: Some(&schema) }];
            assert_eq!(answers(&answer, &only).is_ok(), may_be, "{answer}");
        }
        let endless = json!({ "$ref": "#" });
        assert!(!may_be_result(&json!({ "c9": 1 }), Some(&endless)));
        assert!(!may_be_result(&json!({ "c9": 1 }), Some(&json!(true))));
    }

    #[test]
    fn only_complete_calls_are_calls() {
        let call = json!({ "id": "c", "name": "pick", "args": {} });
        assert_eq!(id(&json!({ "type": "tool", "toolCall": call })), Some("c"));
        for other in [json!({ "type": "pay", "toolCall": call }), json!({ "type": "tool" }), json!("tool"), json!(null)]
        {
            assert_eq!(id(&other), None, "{other}");
        }
    }
}
