//! Calls of tools that run in the client: questions of the form `{"type": "tool", "toolCall": {"id": …, …}}`. Not
//! public API, and exempt from semver.

use serde_json::{Map, Value};

/// Returns the call if a question with this value waits for a client tool.
pub fn of_question(value: &Value) -> Option<&Map<String, Value>> {
    let is_tool = value.get("type").and_then(Value::as_str) == Some("tool");
    let call = value.get("toolCall").and_then(Value::as_object).filter(|_| is_tool)?;
    call.get("id")?.is_string().then_some(call)
}

/// Returns the id of the call if a question with this value waits for a client tool.
pub fn id(value: &Value) -> Option<&str> {
    of_question(value)?.get("id")?.as_str()
}

/// An open question: its id, and the id of the call if it waits for a client tool.
pub type OpenCall<'a> = (&'a str, Option<&'a str>);

/// Translates answers by the ids of calls, as LangGraph's clients send them, into answers by the ids of questions.
/// A client sends `{CALL: result}`, or `{QUESTION: {CALL: result}}`. Returns none for answers in the engine's form.
pub fn answers(resume: &Value, open: &[OpenCall<'_>]) -> Option<Value> {
    let given = resume.as_object().filter(|given| !given.is_empty())?;
    let question_of = |call: &str| {
        let mut found = open.iter().filter(|(_, other)| *other == Some(call));
        let (question, _) = found.next()?;
        found.next().is_none().then(|| (*question).to_owned())
    };
    let by_call: Option<Map<String, Value>> =
        given.iter().map(|(call, result)| Some((question_of(call)?, result.clone()))).collect();
    if let Some(by_call) = by_call {
        return Some(Value::Object(by_call));
    }
    let mut is_changed = false;
    let mut by_question = given.clone();
    for (question, answer) in &mut by_question {
        let call = open.iter().find(|(id, _)| id == question).and_then(|(_, call)| *call);
        let Some((call, fields)) = call.zip(answer.as_object_mut()) else { continue };
        if fields.len() == 1 && fields.contains_key(call) {
            *answer = fields.remove(call).unwrap_or_default();
            is_changed = true;
        }
    }
    is_changed.then_some(Value::Object(by_question))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn answers_by_the_ids_of_calls_are_translated() {
        let open = [("q1", Some("c1")), ("q2", Some("c2")), ("q3", None)];
        let one = json!({ "c1": { "at": 1 } });
        assert_eq!(answers(&one, &open), Some(json!({ "q1": { "at": 1 } })));
        let both = json!({ "c1": 1, "c2": null });
        assert_eq!(answers(&both, &open), Some(json!({ "q1": 1, "q2": null })));
        let nested = json!({ "q1": { "c1": 1 }, "q2": { "at": 2 }, "q3": { "c1": 3 } });
        assert_eq!(answers(&nested, &open), Some(json!({ "q1": 1, "q2": { "at": 2 }, "q3": { "c1": 3 } })));
    }

    #[test]
    fn other_answers_stay_as_they_are() {
        let open = [("q1", Some("c1")), ("q2", Some("c1")), ("q3", None)];
        for resume in [json!("yes"), json!({}), json!({ "q3": 1 }), json!({ "c1": 1 }), json!({ "c9": 1 }), json!([1])]
        {
            assert_eq!(answers(&resume, &open), None, "{resume}");
        }
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
