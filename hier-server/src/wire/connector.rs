//! The answers of AG-UI's connector to LangGraph (`@ag-ui/langgraph`), which `CopilotKit` uses, too.

use serde_json::{Map, Value};

/// The field with several answers, by the ids of their questions.
const ANSWERS: &str = "__agui_resume_map__";

/// The field of an answer that the user declined to give.
const CANCELLED: &str = "__agui_cancelled__";

/// Translates answers of the connector into answers by the ids of questions. A question that the user declined to answer
/// receives null. Returns none for other answers.
pub(crate) fn answers(resume: &Value) -> Option<Value> {
    if let Some(answers) = resume.get(ANSWERS).and_then(Value::as_object) {
        let payload = |answer: &Value| {
            let is_cancelled = answer.get("status").is_some_and(|status| status == "cancelled");
            answer.get("payload").filter(|_| !is_cancelled).cloned().unwrap_or_default()
        };
        return Some(answers.iter().map(|(id, answer)| (id.clone(), payload(answer))).collect::<Map<_, _>>().into());
    }
    resume.get(CANCELLED).filter(|is_cancelled| **is_cancelled == Value::Bool(true))?;
    let id = resume.get("interrupt_id")?.as_str()?;
    Some(Map::from_iter([(id.to_owned(), Value::Null)]).into())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn answers_are_keyed_by_their_questions() {
        let several = json!({ ANSWERS: {
            "q1": { "status": "resolved", "payload": "yes" },
            "q2": { "status": "cancelled", "payload": "no" },
        } });
        assert_eq!(answers(&several), Some(json!({ "q1": "yes", "q2": null })));
        assert_eq!(answers(&json!({ CANCELLED: true, "interrupt_id": "q1" })), Some(json!({ "q1": null })));
        for other in
            [json!("yes"), json!({ "q1": "yes" }), json!({ CANCELLED: false, "interrupt_id": "q1" }), json!([])]
        {
            assert_eq!(answers(&other), None, "{other}");
        }
    }
}
