//! The answers that AG-UI's connector to LangGraph sends (`@ag-ui/langgraph`). `CopilotKit` also uses this connector.

use hier_core::client_call;
use serde_json::{Map, Value};

/// The field that contains several answers, by the ids of their questions.
const ANSWERS: &str = "__agui_resume_map__";

/// The field that marks a question that the user declined to answer.
const CANCELLED: &str = "__agui_cancelled__";

/// Translates answers in the connector's form into answers by the ids of questions. A question that the user declined
/// to answer gets null. Returns `None` for answers in another form.
///
/// # Errors
///
/// Fails if a key is not the id of a question.
pub(crate) fn answers(resume: &Value) -> Result<Option<Value>, String> {
    let is_true = |field: &Value| *field == Value::Bool(true);
    let answers: Map<String, Value> = if let Some(answers) = resume.get(ANSWERS).and_then(Value::as_object) {
        let payload = |answer: &Value| {
            let is_cancelled = answer.get("status").is_some_and(|status| status == "cancelled");
            answer.get("payload").filter(|_| !is_cancelled).cloned().unwrap_or_default()
        };
        answers.iter().map(|(id, answer)| (id.clone(), payload(answer))).collect()
    } else if resume.get(CANCELLED).is_some_and(is_true) {
        let id = resume.get("interrupt_id").and_then(Value::as_str).ok_or("`interrupt_id` is missing")?;
        Map::from_iter([(id.to_owned(), Value::Null)])
    } else {
        return Ok(None);
    };
    check_ids(answers.keys().map(String::as_str))?;
    Ok(Some(answers.into()))
}

/// Refuses keys that are not ids of questions. With another key, the engine would read the whole object as one answer.
pub(crate) fn check_ids<'a>(mut ids: impl Iterator<Item = &'a str>) -> Result<(), String> {
    let Some(other) = ids.find(|id| !client_call::is_question_id(id)) else { return Ok(()) };
    Err(format!("`{other}` is not the id of an interrupt: send the id that the server sent with the question"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn answers_are_keyed_by_their_questions() {
        let (q1, q2) = (&*"1".repeat(32), &*"2".repeat(32));
        let several = json!({ ANSWERS: {
            q1: { "status": "resolved", "payload": "yes" },
            q2: { "status": "cancelled", "payload": "no" },
        } });
        assert_eq!(answers(&several), Ok(Some(json!({ q1: "yes", q2: null }))));
        assert_eq!(answers(&json!({ CANCELLED: true, "interrupt_id": q1 })), Ok(Some(json!({ q1: null }))));
        for other in [json!("yes"), json!({ q1: "yes" }), json!({ CANCELLED: false, "interrupt_id": q1 }), json!([])] {
            assert_eq!(answers(&other), Ok(None), "{other}");
        }
    }

    #[test]
    fn unknown_ids_are_refused() {
        for wrong in [json!({ ANSWERS: { "q1": { "payload": 1 } } }), json!({ CANCELLED: true, "interrupt_id": "q1" })]
        {
            assert!(answers(&wrong).expect_err("no id").contains("`q1` is not the id of an interrupt"), "{wrong}");
        }
        assert!(answers(&json!({ CANCELLED: true })).expect_err("no id").contains("`interrupt_id`"));
    }
}
